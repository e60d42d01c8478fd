"""Several sources one after the other: bounded history first, what is live then."""

from __future__ import annotations

from tidegate.connectors.hybrid.builder import HybridSourceBuilder as HybridSourceBuilder
from tidegate.connectors.hybrid.source import HybridSource as HybridSource

__all__ = ["HybridSource", "HybridSourceBuilder"]
