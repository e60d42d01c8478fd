"""A program whose records of state have other fields than those it goes on from: keyed, operator and broadcast state."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tidegate.connectors.files import FileSink
from tidegate.connectors.functions import SourceFunction
from tidegate.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.errors import TidegateError
from tidegate.types import Types


def _account(*fields: tuple[Any, ...]) -> Any:
    return dataclasses.make_dataclass(
        "Account", list(fields), frozen=True, namespace={"__module__": __name__}
    )


Old = _account(("name", str), ("cents", int))
New = _account(("cents", float), ("currency", str, "EUR"))
Wrong = _account(("name", str), ("cents", str))


class Once(SourceFunction):
    """Emits one number, then waits until it is told to end."""

    def __init__(self, number: int) -> None:
        self.number = number

    def open(self, runtime_context: Any) -> None:
        self.told = threading.Event()

    def run(self, ctx: Any) -> None:
        ctx.collect(self.number)
        self.told.wait()

    def cancel(self) -> None:
        self.told.set()


class Keep(KeyedProcessFunction, CheckpointedFunction):
    """Keeps an account in every kind of state there is; tells what it holds."""

    def __init__(self, account: Any) -> None:
        self.account = account

    def initialize_state(self, context: Any) -> None:
        of, store = Types.of(self.account), context.get_operator_state_store()
        self.listed = store.get_list_state(ListStateDescriptor("listed", of))
        self.united = store.get_union_list_state(ListStateDescriptor("united", of))
        self.broadcast = store.get_broadcast_state(MapStateDescriptor("broadcast", Types.STRING(), of))

    def snapshot_state(self, context: Any) -> None:
        pass

    def open(self, runtime_context: Any) -> None:
        self.held = runtime_context.get_state(ValueStateDescriptor("held", Types.of(self.account)))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if value:
            account = self.account("ann", value)
            self.held.update(account)
            self.listed.add(account)
            self.united.add(account)
            self.broadcast.put("a", account)
        states = ([self.held.value()], self.listed.get(), self.united.get(), self.broadcast.values())
        yield [[dataclasses.asdict(account) for account in accounts] for accounts in states]


def run(
    env: StreamExecutionEnvironment,
    account: Any,
    number: int,
    root: Path,
    form: str,
    place: str | None = None,
) -> tuple[list[Any], str]:
    """What the program tells of one number, and where it can go on."""
    out = root / f"out {number}"
    env.configure(
        {
            "execution.checkpointing.interval": "30 ms",
            "state.checkpoints.dir": str(root / "state"),
            "execution.savepoint.ignore-unclaimed-state": place is not None,
            **({"execution.savepoint.path": place} if place else {}),
        }
    )
    numbers = env.add_source(Once(number)).uid(f"once {number}")
    kept = numbers.key_by(lambda number: 0).process(Keep(account)).set_parallelism(1).uid("keep")
    kept.sink_to(FileSink(str(out))).uid(f"out {number}")
    client = env.execute_async(f"keep {number}")
    told = until(
        lambda: [line for part in out.glob("part-*") for line in part.read_text().splitlines()], job=client
    )
    if form == "checkpoint":
        client.stop().result(timeout=60)
        place = str(max((root / "state").glob("*/chk-*"), key=lambda path: int(path.name[4:])))
    else:
        place = client.stop_with_savepoint(
            False, str(root / "savepoints"), format_type="native" if form == "native" else "canonical"
        ).result(timeout=60)
    return json.loads(told[0]), place


@pytest.mark.parametrize("form", ["checkpoint", "native", "canonical"])
def test_state_of_every_kind_follows_its_declaration(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, form: str
) -> None:
    told, place = run(anywhere, Old, 7, tmp_path, form)
    assert told == [[{"name": "ann", "cents": 7}]] * 4

    told, _ = run(anywhere, New, 0, tmp_path, form, place)

    assert told == [[{"cents": 7.0, "currency": "EUR"}]] * 4
    assert {type(account["cents"]) for accounts in told for account in accounts} == {float}


def test_a_program_that_cannot_read_its_state_fails_by_its_name(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    _, place = run(anywhere, Old, 7, tmp_path, "canonical")
    with pytest.raises(
        TidegateError,
        match=r"state 'listed' was stored with another type; .*; field cents: got string; expected long",
    ):
        run(anywhere, Wrong, 0, tmp_path, "checkpoint", place)
