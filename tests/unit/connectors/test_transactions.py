"""Sink functions with transactions: which call comes when, and what is said when one fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

import pytest

from tidegate.clock import ManualClock
from tidegate.connectors.functions import TransactionalFunctionSink
from tidegate.elements import Batch
from tidegate.errors import UnavailableError, UserCodeError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.twophase.function import TwoPhaseCommitSinkFunction
from tidegate.twophase.spi import Answer, CommitAnswer, Committable, CommitterContext, Retry, WriterContext


class Noting(TwoPhaseCommitSinkFunction[int]):
    """Notes its calls; fails with what is queued for a method."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.failing: dict[str, list[Exception]] = {}
        self.begun = 0

    def __deepcopy__(self, memo: Any) -> Noting:
        return self

    def note(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, *arguments))
        if self.failing.get(name):
            raise self.failing[name].pop(0)

    def open(self, runtime_context: Any) -> None:
        self.note("open")

    def close(self) -> None:
        self.note("close")

    def begin_transaction(self) -> int:
        self.note("begin", self.begun + 1)
        self.begun += 1
        return self.begun

    def invoke(self, transaction: int, value: Any, context: Any) -> None:
        self.note("invoke", transaction, value, context.timestamp())

    def pre_commit(self, transaction: int) -> None:
        self.note("pre_commit", transaction)

    def commit(self, transaction: int) -> CommitAnswer | None:
        self.note("commit", transaction)
        return None

    def abort(self, transaction: int) -> None:
        self.note("abort", transaction)


class Files(TwoPhaseCommitSinkFunction[str]):
    """A transaction is a temporary file, whose commit moves it to the target directory."""

    def __init__(self, temporary: Path, target: Path) -> None:
        self.temporary, self.target = temporary, target
        self.files: dict[str, TextIO] = {}

    def begin_transaction(self) -> str:
        name = f"part-{len(self.files)}"
        self.files[name] = (self.temporary / name).open("w")
        return name

    def invoke(self, transaction: str, value: Any, context: Any) -> None:
        self.files[transaction].write(f"{value}\n")

    def pre_commit(self, transaction: str) -> None:
        self.files[transaction].close()

    def commit(self, transaction: str) -> None:
        (self.temporary / transaction).rename(self.target / transaction)

    def abort(self, transaction: str) -> None:
        self.files[transaction].close()
        (self.temporary / transaction).unlink()


@pytest.fixture
def function() -> Noting:
    return Noting()


def writer(function: TwoPhaseCommitSinkFunction[Any], *restored: bytes) -> Any:
    return TransactionalFunctionSink(function).open_writer(
        WriterContext(
            PipelineId("orders"),
            OperatorUid("out"),
            Subtask("out", 0),
            1,
            LineageId("1f"),
            Branch(0),
            "1",
            restored,
            ManualClock(1_000),
        )
    )


def committed(function: TwoPhaseCommitSinkFunction[Any], *prepared: tuple[bytes, str, int]) -> list[Answer]:
    context = CommitterContext(PipelineId("orders"), OperatorUid("out"), LineageId("1f"), ManualClock(1_000))
    work = [Committable(OperatorUid("out"), 0, CheckpointId(4), *each) for each in prepared]
    return TransactionalFunctionSink(function).open_committer(context).commit(work)


def test_an_epoch_is_one_transaction_and_the_next_begins_when_it_is_prepared(function: Noting) -> None:
    out = writer(function)
    out.write(Batch(["a", "b"], timestamps=[5, 6]))
    prepared = out.prepare(CheckpointId(1))
    out.close()

    assert function.calls == [
        ("open",),
        ("begin", 1),
        ("invoke", 1, "a", 5),
        ("invoke", 1, "b", 6),
        ("pre_commit", 1),
        ("begin", 2),
        ("abort", 2),
        ("close",),
    ]
    assert prepared[1:] == ("transaction 1", 2)


@pytest.mark.spec("001/S1-27")
def test_a_transaction_of_files_is_temporary_then_closed_then_moved_and_the_open_one_is_deleted(
    tmp_path: Path,
) -> None:
    temporary, target = tmp_path / "temporary", tmp_path / "target"
    temporary.mkdir()
    target.mkdir()
    function = Files(temporary, target)

    def there() -> dict[str, str]:
        return {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.glob("*/*")}

    out = writer(function)
    out.write(Batch(["a", "b"]))
    assert there() == {"temporary/part-0": ""}
    prepared = out.prepare(CheckpointId(1))
    out.write(Batch(["c"]))
    assert there() == {"temporary/part-0": "a\nb\n", "temporary/part-1": ""}
    assert committed(function, prepared) == [CommitAnswer.COMMITTED]
    assert there() == {"target/part-0": "a\nb\n", "temporary/part-1": ""}
    out.close()
    assert there() == {"target/part-0": "a\nb\n"}


def test_a_transaction_without_records_stays_open(function: Noting) -> None:
    out = writer(function)

    assert out.prepare(CheckpointId(1)) is None
    out.write(Batch(["a"]))
    assert out.prepare(CheckpointId(2))[2] == 1
    assert [call for call in function.calls if call[0] == "pre_commit"] == [("pre_commit", 1)]


def test_what_was_open_at_the_checkpoint_is_aborted_before_anything_else(function: Noting) -> None:
    out = writer(function)
    out.write(Batch(["a"]))
    out.prepare(CheckpointId(1))
    state = out.snapshot(CheckpointId(1))
    function.calls.clear()

    writer(function, state)

    assert function.calls == [("abort", 2), ("open",), ("begin", 3)]


def test_a_transaction_that_was_not_prepared_goes_on_and_is_prepared_with_the_next_checkpoint(
    function: Noting,
) -> None:
    function.failing["pre_commit"] = [UnavailableError("away")]
    out = writer(function)
    out.write(Batch(["a"]))
    with pytest.raises(UnavailableError, match="failed in pre_commit: UnavailableError: away"):
        out.prepare(CheckpointId(1))
    out.write(Batch(["b"]))

    assert out.prepare(CheckpointId(2))[2] == 2
    assert [call[1] for call in function.calls if call[0] == "invoke"] == [1, 1]


def test_what_is_prepared_is_not_lost_if_the_next_transaction_cannot_begin_yet(function: Noting) -> None:
    out = writer(function)
    out.write(Batch(["a"]))
    function.failing["begin"] = [UnavailableError("away")]

    assert out.prepare(CheckpointId(1))[2] == 1
    out.write(Batch(["b"]))
    assert out.prepare(CheckpointId(2))[1] == "transaction 2"


def test_the_process_that_wrote_commits_and_another_recovers(
    function: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Noting, "recover_and_commit", lambda self, transaction: CommitAnswer.ALREADY_COMMITTED
    )
    out = writer(function)
    out.write(Batch(["a"]))
    prepared = out.prepare(CheckpointId(1))

    assert committed(function, prepared) == [CommitAnswer.COMMITTED]
    monkeypatch.setattr("tidegate.twophase.function.this_process_id", lambda: "another")
    assert committed(function, prepared) == [CommitAnswer.ALREADY_COMMITTED]


def test_without_a_recovery_of_its_own_a_function_commits_again(
    function: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = writer(function)
    out.write(Batch(["a"]))
    prepared = out.prepare(CheckpointId(1))
    monkeypatch.setattr("tidegate.twophase.function.this_process_id", lambda: "another")

    assert committed(function, prepared) == [CommitAnswer.COMMITTED]
    assert function.calls[-1] == ("commit", 1)


def test_a_system_that_does_not_answer_is_asked_again(function: Noting) -> None:
    out = writer(function)
    out.write(Batch(["a"]))
    prepared = out.prepare(CheckpointId(1))
    function.failing["commit"] = [UnavailableError("away")]

    assert committed(function, prepared) == [Retry("away")]
    assert committed(function, prepared) == [CommitAnswer.COMMITTED]


def test_a_failing_commit_is_named_and_the_others_are_done(function: Noting) -> None:
    out = writer(function)
    works = []
    for checkpoint in (1, 2):
        out.write(Batch(["a"]))
        works.append(out.prepare(CheckpointId(checkpoint)))
    function.failing["commit"] = [OSError("disk full")]

    with pytest.raises(
        UserCodeError,
        match=r"sink function Noting \(uid 'out'\) failed to commit transaction 1 of checkpoint 4: OSError: disk full",
    ):
        committed(function, *works)
    assert function.calls[-1] == ("commit", 2)
