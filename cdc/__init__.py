"""Change data capture: what a database's row changes are, and how a snapshot and a log become one stream."""

from __future__ import annotations

__all__: list[str] = []
