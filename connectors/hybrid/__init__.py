"""Hybrid source: several sources in sequence, bounded history first, then live data."""

from __future__ import annotations

from tidegate.connectors.hybrid.builder import HybridSourceBuilder as HybridSourceBuilder
from tidegate.connectors.hybrid.source import HybridSource as HybridSource

__all__ = ["HybridSource", "HybridSourceBuilder"]
