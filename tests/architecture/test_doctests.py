"""Every example in a docstring of the package runs as it is written."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest


def test_docstring_examples_run(
    module_with_examples: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(module_with_examples)

    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)

    assert result.attempted > 0
    assert result.failed == 0
