"""What type checkers must accept and refuse about ids, errors and clocks; checked, never run."""

from __future__ import annotations

from typing import assert_type

from tidegate.clock import Clock, ManualClock, SystemClock
from tidegate.errors import ConfigError, MissingExtraError, TidegateError
from tidegate.ids import Branch, CheckpointId, Identity, LineageId, OperatorUid, RunId, Subtask


def confirm(run: RunId, checkpoint: CheckpointId) -> None: ...


def test_ids_keep_their_types() -> None:
    identity = Identity(LineageId("9f2c"), Branch(0), CheckpointId(7))
    assert_type(identity.lineage, LineageId)
    assert_type(identity.checkpoint, CheckpointId)
    assert_type(identity.label, str)
    assert_type(Subtask("totals", 1).index, int)


def test_ids_are_not_mixed_up() -> None:
    confirm(RunId("a"), CheckpointId(7))
    confirm(OperatorUid("a"), CheckpointId(7))  # type: ignore[arg-type] # another kind of id
    confirm(RunId("a"), 7)  # type: ignore[arg-type] # a bare number is no checkpoint


def test_both_clocks_are_clocks() -> None:
    clocks: list[Clock] = [SystemClock(), ManualClock()]
    assert_type(clocks[0].now_ms(), int)
    assert_type(clocks[0].monotonic(), float)


def test_errors_can_be_caught_by_their_standard_kind() -> None:
    as_value: ValueError = ConfigError("x")
    as_import: ImportError = MissingExtraError("x")
    everything: list[TidegateError] = [ConfigError("x"), MissingExtraError("x")]
    assert len({as_value, as_import, *everything}) == 4
