"""What functions measure, looked at while they go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.errors import ConfigError
from tidegate.runtime.accumulators import Accumulator
from tidegate.runtime.operators.measures import Measures, totals


class Met(Accumulator):
    """The names that were added."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def add(self, value: str) -> None:
        self.names[value] = 1

    def get_local_value(self) -> list[str]:
        return sorted(self.names)

    def merge(self, other: Met) -> None:
        self.names |= other.names


class Watched:
    """Calls somebody whenever it is packed."""

    def __init__(self, packed: Callable[[], None]) -> None:
        self.packed = packed

    def __reduce__(self) -> Any:
        self.packed()
        return int, (1,)


def test_what_another_thread_adds_to_while_it_is_looked_at_is_shown_at_the_next_look() -> None:
    looked, added = threading.Event(), threading.Event()
    met, measures = Met(), Measures()
    measures.add("met", met)
    met.add("ada")
    assert totals([measures.measured()]) == {"met": ["ada"]}

    def in_the_midst() -> None:
        looked.set()
        assert added.wait(10)

    def add_meanwhile() -> None:
        assert looked.wait(10)
        met.add("bob")
        added.set()

    met.names["cyd"] = Watched(in_the_midst)
    thread = threading.Thread(target=add_meanwhile)
    thread.start()

    assert totals([measures.measured()]) == {"met": ["ada"]}
    assert totals([measures.measured()]) == {"met": ["ada", "bob", "cyd"]}
    thread.join()


def test_an_accumulator_that_cannot_be_packed_is_an_error() -> None:
    def fail() -> None:
        raise RuntimeError("no")

    met, measures = Met(), Measures()
    measures.add("met", met)
    met.names["ada"] = Watched(fail)

    with pytest.raises(
        ConfigError, match="an accumulator cannot be sent to another process: RuntimeError: no"
    ):
        measures.measured()
