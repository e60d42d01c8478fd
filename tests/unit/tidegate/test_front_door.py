"""The front door gives every name it promises, to people and to type checkers, and only when asked."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tidegate


def names_for_type_checkers() -> set[str]:
    tree = ast.parse(Path(tidegate.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


@pytest.mark.parametrize("name", tidegate.__all__)
def test_every_promised_name_is_there(name: str) -> None:
    assert getattr(tidegate, name).__name__ == name


def test_type_checkers_see_the_same_names() -> None:
    assert names_for_type_checkers() == set(tidegate.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tidegate' has no attribute 'Flink'"):
        _ = tidegate.Flink
