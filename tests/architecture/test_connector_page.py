"""The page for authors of connectors names every optional ability, with the signatures that the code has."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

import pytest

from tidegate.connectors import spi as connectors, table_spi as tables
from tidegate.twophase import spi as twophase

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "connectors.md"


def abilities(module: ModuleType) -> list[tuple[str, type]]:
    """The optional abilities of a contract."""
    return [
        (name, each)
        for name, each in vars(module).items()
        if name.startswith("Supports") and each.__module__ == module.__name__
    ]


def signatures(ability: type) -> list[str]:
    """What a class must have to have the ability, as it is written."""
    found = []
    for name, each in vars(ability).items():
        if name.startswith("_"):
            continue
        if isinstance(each, property):
            assert each.fget is not None
            found.append(f"{name}: {each.fget.__annotations__['return']}")
        else:
            first, *others = inspect.signature(each).parameters.values()
            assert first.name == "self"
            given = ", ".join(f"{other.name}: {other.annotation}" for other in others)
            found.append(f"{name}({given}) -> {each.__annotations__['return']}")
    return found


@pytest.mark.parametrize(
    ("name", "ability"),
    [*abilities(connectors), *abilities(tables), *abilities(twophase)],
    ids=lambda value: str(value)[:40],
)
def test_the_page_has_every_optional_ability_with_its_signatures(name: str, ability: type) -> None:
    rows = [
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}` |")
    ]

    assert len(rows) == 1, f"{name} has {len(rows)} rows in {PAGE.name}"
    for signature in signatures(ability):
        assert f"`{signature.replace('|', chr(92) + '|')}`" in rows[0]
