"""Hybrid source, under PyFlink's module name."""

from tidegate.connectors.hybrid import (
    HybridSource as HybridSource,
    HybridSourceBuilder as HybridSourceBuilder,
)

__all__ = ["HybridSource", "HybridSourceBuilder"]
