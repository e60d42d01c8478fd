"""Installs a third-party package: a module and its entry points, here and in processes that a test starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import registry

__all__ = ["install"]


def install(directory: Path, patch: pytest.MonkeyPatch, name: str, source: str, entry_points: str) -> None:
    """Install the module `name` into a directory on the path; `entry_points` is the text of its file of them."""
    module = name.replace("-", "_")
    (directory / f"{module}.py").write_text(source)
    about = directory / f"{module}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(entry_points)
    patch.syspath_prepend(str(directory))
    patch.setenv("PYTHONPATH", str(directory))
    patch.setattr(registry, "load", registry.load.__wrapped__)
