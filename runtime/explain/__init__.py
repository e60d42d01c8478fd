"""The plan of a program, without running it: as text, diagram or generated code."""

from __future__ import annotations

from tidegate.runtime.explain.explained import Explained as Explained, explained as explained
from tidegate.runtime.explain.loops import loops as loops
from tidegate.runtime.explain.picture import picture as picture
from tidegate.runtime.explain.text import text as text

__all__ = ["Explained", "explained", "loops", "picture", "text"]
