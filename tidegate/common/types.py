"""Rows, under PyFlink's module name."""

from tidegate.elements import RowKind as RowKind
from tidegate.types import Row as Row

__all__ = ["Row", "RowKind"]
