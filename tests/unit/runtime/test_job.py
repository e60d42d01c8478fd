"""How a start finds its place: what is settled first, what is removed, what is refused, on a storage in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.runtime.checkpoint.full import Undecided
from tidegate.backends.storage import MemoryStorage, StorageFiles, decisions_of
from tidegate.clock import SYSTEM_CLOCK, Clock, ManualClock
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.spi import Sink
from tidegate.errors import CommitFailedError, CommitUnknownError, ConfigError, FencedError, UnavailableError
from tidegate.ids import CheckpointId, LineageId, OperatorUid, PipelineId, RunId
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, Unsettled
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.record import read_record
from tidegate.runtime.checkpoint.savepoint import write_savepoint
from tidegate.runtime.graph.transformations import Input, Transformation
from tidegate.runtime.job import Program, Startup
from tidegate.runtime.operators.sink import SINK as SINK_KIND
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark.driver import SparkDriver
from tidegate.runtime.status import RunStatus
from tidegate.twophase.spi import CommitAnswer, Committable, Committer, CommitterContext, Retry

SINK = OperatorUid("sink")
ORDERS = PipelineId("orders")


class Told(Sink):
    """A sink whose committer answers what it is told; remembers what it was asked."""

    delivery = "exactly-once"

    def __init__(self, *answers: CommitAnswer, on_branch: str = "refuse") -> None:
        self.answers = list(answers)
        self.on_branch = on_branch
        self.asked: list[str] = []

    def open_writer(self, context: Any) -> Any:
        raise AssertionError("no writer is opened before a start point is found")

    def open_committer(self, context: CommitterContext) -> Committer:
        return _Committer(self)


class _Committer(Committer):
    def __init__(self, sink: Told) -> None:
        self._sink = sink

    def commit(self, committables: Sequence[Committable]) -> list[CommitAnswer]:
        self._sink.asked += [work.describe for work in committables]
        return [
            self._sink.answers.pop(0) if self._sink.answers else CommitAnswer.COMMITTED for _ in committables
        ]

    def abort_except(self, keep: Sequence[Committable]) -> int:
        self._sink.asked.append(f"abort except {len(keep)}")
        return 3


def work(checkpoint: int) -> Committable:
    return Committable(SINK, 0, CheckpointId(checkpoint), b"", f"part-{checkpoint}", 10)


def start(
    storage: MemoryStorage, sink: Told, said: list[str], clock: Clock = SYSTEM_CLOCK, **options: Any
) -> Startup:
    source = Transformation(SOURCE, "source", CollectionSource([1]), uid="source")
    step = Transformation(SINK_KIND, "sink", sink, (Input(source),), uid=SINK)
    program = Program("orders", ORDERS, (step,), JobOptions(**options), parallelism=1)
    return Startup(program, storage, clock, said.append)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def before(storage: MemoryStorage) -> Callable[..., Pipeline]:
    """A run that decided checkpoints with work of their own, settled some of them, and stopped."""

    def run(decided: Sequence[int], settled: Sequence[int], carried: Sequence[int] = ()) -> Pipeline:
        pipeline = Pipeline(storage, ORDERS, RunId("before"), ManualClock())
        pipeline.acquire(lambda: LineageId("l"), fresh=False, say=print)
        for number in decided:
            unsettled = [
                Unsettled(CheckpointId(n), (work(n),)) for n in sorted({*carried, number}) if n <= number
            ]
            states = (
                OperatorState(OperatorUid("source"), "source", 1, 128),
                OperatorState(SINK, "sink", 1, 128),
            )
            pipeline.archive.write(
                Manifest(
                    ORDERS,
                    LineageId("l"),
                    pipeline.record.branch,
                    RunId("before"),
                    CheckpointId(number),
                    None,
                    0,
                    states,
                    tuple(unsettled),
                )
            )
            pipeline.decide(CheckpointId(number))
        for number in settled:
            pipeline.archive.mark_settled(Retained(RunId("before"), CheckpointId(number)))
        pipeline.leave("stopped")
        return pipeline

    return run


def test_what_is_decided_is_committed_and_marked_before_anything_is_removed(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1, 2], settled=[1])
    sink = Told()
    startup = start(storage, sink, [])
    startup.acquire()

    point = startup.start_point()

    assert sink.asked == ["part-2", "abort except 0"]
    assert (point.checkpoint, startup.resumed_from) == (2, 2)
    assert startup.pipeline.archive.settled(Retained(RunId("before"), CheckpointId(2)))


def test_who_was_replaced_and_restarts_a_part_removes_nothing_of_the_new_owner(
    storage: MemoryStorage,
) -> None:
    sink = Told()
    startup = start(storage, sink, [])
    startup.acquire()
    graph = startup.start_point().graph
    sink.asked.clear()
    mine, tag = read_record(storage.decisions, ORDERS)
    assert mine is not None
    theirs = msgspec.structs.replace(
        mine, lease=msgspec.structs.replace(mine.lease, run=RunId("second"), pid=99)
    )
    assert storage.decisions.swap("orders/latest", tag, msgspec.msgpack.encode(theirs))

    with pytest.raises(FencedError, match="now owned by run second"):
        startup.region_start_point(graph, {SINK})

    assert sink.asked == []


def test_a_part_goes_on_from_the_newest_checkpoint_without_its_undecided_work(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1], settled=[1])
    sink = Told()
    startup = start(storage, sink, [])
    startup.acquire()
    graph = startup.start_point().graph

    assert startup.region_start_point(graph, {SINK}).checkpoint == 1
    assert sink.asked == ["abort except 0"] * 2


def test_what_is_settled_is_never_asked_for_again_even_if_its_own_checkpoint_is_gone(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    # Checkpoint 1 settled late, so 2 carries its work; both are settled and 1 is released.
    before([2], settled=[2], carried=[1])
    sink = Told(CommitAnswer.UNKNOWN)
    startup = start(storage, sink, [])
    startup.acquire()

    assert startup.start_point().checkpoint == 2
    assert sink.asked == ["abort except 0"]


def test_a_restart_and_the_end_remove_what_no_checkpoint_refers_to(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1], settled=[1])
    startup = start(storage, Told(), [])
    startup.acquire()
    for end in (startup.start_point, lambda: startup.leave("finished")):
        storage.blobs.put(f"{startup.run}/shared/unfinished", b"part of a base")
        end()
        assert storage.blobs.list(f"{startup.run}/shared") == []
    assert startup.pipeline.record.status == "finished"


def test_work_that_was_aborted_altogether_sends_the_start_back(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1, 2], settled=[1])
    said: list[str] = []
    startup = start(storage, Told(CommitAnswer.ABORTED), said)
    startup.acquire()

    assert startup.start_point().checkpoint == 1
    assert said[0] == "output of checkpoint 2 was aborted; restoring 1"
    assert [known.checkpoint for known in startup.pipeline.record.retained] == [1]
    assert startup.coordinator(startup.start_point().graph, startup.start_point()).confirmed == 1
    assert startup.pipeline.record.newest_id == 2, "its number is not used again"


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        ([CommitAnswer.COMMITTED, CommitAnswer.ABORTED], None, None),
        ([CommitAnswer.UNKNOWN], CommitUnknownError, "checkpoint 1 is decided but it is unknown whether"),
        (
            [Retry("disk full")],
            UnavailableError,
            r"decided output could not be committed: .*disk full\); nothing is lost",
        ),
    ],
    ids=["the second aborted", "unknown", "not now"],
)
def test_each_answer_leads_where_it_should(
    storage: MemoryStorage,
    before: Callable[..., Pipeline],
    answers: list[CommitAnswer],
    error: type[Exception] | None,
    message: str | None,
) -> None:
    before([1, 2], settled=[], carried=[1])
    startup = start(storage, Told(*answers), [])
    startup.acquire()

    if error is None:
        assert startup.start_point().checkpoint == 1, "1 is visible, nothing of 2 is"
    else:
        with pytest.raises(error, match=message):
            startup.start_point()


def test_a_loss_that_is_accepted_is_gone_on_from(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1, 2], settled=[], carried=[1])
    said: list[str] = []
    startup = start(storage, Told(CommitAnswer.UNKNOWN), said, accept_loss=1)
    startup.acquire()

    assert startup.start_point().checkpoint == 2
    assert "resuming from checkpoint 1 although its output may be lost, as requested by --accept-loss" in said


def test_the_loss_of_another_checkpoint_is_not_accepted_with_it(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1, 2], settled=[], carried=[1])
    startup = start(storage, Told(CommitAnswer.UNKNOWN), [], accept_loss=2)
    startup.acquire()

    with pytest.raises(CommitUnknownError, match="checkpoint 1 is decided but it is unknown whether"):
        startup.start_point()


def test_a_replay_goes_back_behind_what_was_committed_on_a_branch_of_its_own(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1, 2], settled=[1])
    sink, said = Told(CommitAnswer.UNKNOWN), list[str]()
    startup = start(storage, sink, said, replay_from=1)

    startup.acquire()

    assert startup.start_point().checkpoint == 1
    assert (startup.pipeline.record.branch, startup.pipeline.record.newest_id) == (1, 2)
    assert sink.asked == ["abort except 0"], "nobody asks any more what became of 2"
    assert "output committed after checkpoint 1 is written again, as requested by --replay-from" in said


def test_a_replay_from_the_beginning_needs_no_checkpoint(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1], settled=[])
    startup = start(storage, Told(), [], replay_from=0)

    startup.acquire()

    assert startup.start_point().checkpoint is None
    assert startup.pipeline.record.newest_id == 1, "no number is used twice"


@pytest.mark.parametrize(
    ("settled", "options", "message"),
    [
        (
            [1, 2],
            {"replay_from": 1},
            "is visible; leave it out",
        ),
        ([1], {"replay_from": 7}, "needs a checkpoint whose output is visible; got 7; expected one of 1"),
        (
            [],
            {"replay_from": 1},
            "got 1; expected 0, the beginning, because no settled checkpoint is retained",
        ),
        (
            [1],
            {"replay_from": 1, "fresh": True},
            "--replay-from restores a checkpoint; got --fresh or -s too",
        ),
    ],
    ids=["nothing is lost", "no such checkpoint", "none is settled", "two wishes"],
)
def test_a_replay_that_makes_no_sense_is_refused_and_changes_nothing(
    storage: MemoryStorage,
    before: Callable[..., Pipeline],
    settled: list[int],
    options: dict[str, Any],
    message: str,
) -> None:
    before([1, 2], settled=settled)

    with pytest.raises(ConfigError, match=message):
        start(storage, Told(), [], **options).acquire()

    record, _ = read_record(decisions_of(storage), ORDERS)
    assert record is not None
    assert [known.checkpoint for known in record.retained] == [1, 2]


def test_decided_work_of_a_sink_that_is_gone_is_never_forgotten(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1], settled=[])
    startup = start(storage, Told(), [])
    startup.program.sinks[0].uid = "renamed"
    startup.acquire()

    with pytest.raises(
        CommitFailedError,
        match=r"sink 'sink' holds decided work that is not visible yet.*give the sink this uid again",
    ):
        startup.start_point()


def test_an_older_checkpoint_is_refused_by_a_sink_that_committed_since(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1, 2, 3], settled=[1, 2, 3])

    with pytest.raises(
        ConfigError,
        match=r"sink 'sink' has committed 20 records after checkpoint 1 \(part-2, part-3\); restoring would write "
        r"them twice; give the sink on_branch='append' to allow that",
    ):
        start(storage, Told(), [], savepoint="1").acquire()

    goes_on = start(storage, Told(), [])
    goes_on.acquire()
    assert goes_on.resumed_from == 3, "a refusal changes nothing"


@pytest.mark.parametrize("name", ["1", "before/chk-1"])
def test_an_older_checkpoint_opens_a_branch_and_what_came_after_is_swept(
    storage: MemoryStorage, before: Callable[..., Pipeline], name: str
) -> None:
    before([1, 2, 3], settled=[1, 2, 3])
    startup = start(storage, Told(on_branch="append"), [], savepoint=name)

    startup.acquire()

    record = startup.pipeline.record
    assert (startup.resumed_from, record.branch, record.newest_id) == (1, 1, 3)
    assert storage.blobs.list("before/") == ["before/chk-1/_metadata", "before/chk-1/_settled"]


def test_going_back_works_although_what_came_after_is_damaged(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1, 2], settled=[1, 2])
    storage.blobs.put("before/chk-2/_metadata", b"damaged")

    startup = start(storage, Told(on_branch="append"), [], savepoint="1")
    startup.acquire()

    assert startup.start_point().checkpoint == 1


def test_going_back_settles_what_is_newer_first(
    storage: MemoryStorage, before: Callable[..., Pipeline]
) -> None:
    before([1, 2], settled=[1])
    sink = Told(on_branch="append")

    start(storage, sink, [], savepoint="1").acquire()

    assert sink.asked == ["part-2"]


@pytest.mark.parametrize("status", ["stopped", "finished"])
def test_a_checkpoint_nobody_knows_is_refused_and_nothing_is_forgotten(
    storage: MemoryStorage, before: Callable[..., Pipeline], status: Any
) -> None:
    before([1, 2], settled=[1, 2]).leave(status)

    with pytest.raises(
        ConfigError,
        match="'7' is not a savepoint or a retained checkpoint of pipeline 'orders'; expected a retained one \\(before/chk-1, before/chk-2",
    ):
        start(storage, Told(), [], savepoint="7").acquire()

    again = start(storage, Told(), [], savepoint="2")
    again.acquire()
    assert again.resumed_from == 2


def test_what_only_reads_savepoints_keeps_no_state() -> None:
    with pytest.raises(ConfigError, match=r"'canonical' only reads savepoints and cannot keep state; use"):
        start(MemoryStorage(), Told(), [], backend="canonical")


@pytest.fixture
def savepoint(storage: MemoryStorage, before: Callable[..., Pipeline], tmp_path: Path) -> str:
    """A savepoint of the first of three checkpoints."""
    pipeline = before([1, 2, 3], settled=[1, 2, 3])
    first = pipeline.archive.load(Retained(RunId("before"), CheckpointId(1)))
    place = tmp_path / "savepoint"
    write_savepoint(
        msgspec.structs.replace(first, unsettled=()), StorageFiles(storage.blobs, ""), place, "heap"
    )
    return str(place)


def test_a_savepoint_is_refused_by_a_sink_that_committed_since(
    storage: MemoryStorage, savepoint: str
) -> None:
    with pytest.raises(
        ConfigError,
        match=r"sink 'sink' has committed 20 records after checkpoint 1 \(part-2, part-3\)",
    ):
        start(storage, Told(), [], savepoint=savepoint).acquire()

    goes_on = start(storage, Told(), [])
    goes_on.acquire()
    assert goes_on.resumed_from == 3, "a refusal changes nothing"


def test_a_savepoint_is_refused_where_later_checkpoints_are_not_retained(
    storage: MemoryStorage, savepoint: str
) -> None:
    appending = start(storage, Told(on_branch="append"), [], savepoint=savepoint)
    appending.acquire()
    appending.pipeline.leave("stopped")

    with pytest.raises(
        ConfigError,
        match=r"the commits of sink 'sink' in checkpoints 2 to 3 are unknown, because these checkpoints are no longer "
        r"retained; restoring could write records twice; use a newer savepoint, or give the sink on_branch='append'",
    ):
        start(storage, Told(), [], savepoint=savepoint).acquire()


def test_a_savepoint_takes_the_place_of_all_checkpoints(storage: MemoryStorage, savepoint: str) -> None:
    startup = start(storage, Told(on_branch="append"), [], savepoint=savepoint)

    startup.acquire()

    record = startup.pipeline.record
    assert record.retained == (Retained(startup.run, CheckpointId(4)),)
    assert (startup.resumed_from, record.branch, record.newest_id) == (4, 1, 4)
    assert startup.pipeline.archive.settled(record.retained[0])
    assert startup.start_point().checkpoint == 4
    assert storage.blobs.list("before/") == []


def test_a_savepoint_of_another_history_begins_one_of_its_own(savepoint: str) -> None:
    startup = start(MemoryStorage(), Told(), [], savepoint=savepoint)

    startup.acquire()

    assert startup.pipeline.record.lineage != "l"
    assert startup.start_point().checkpoint == 1


def test_a_storage_without_decisions_is_warned_about_and_not_taken_on_spark(storage: MemoryStorage) -> None:
    said: list[str] = []
    startup = start(storage, Told(), said)
    startup.storage = Undecided(storage)

    startup.acquire()

    assert said == [
        "storage memory://undecided has no atomic swap: two starts of pipeline 'orders' at the same moment can "
        "corrupt its checkpoints; make sure that there is only one"
    ]
    driver = SparkDriver(startup, SYSTEM_CLOCK, RunStatus(SYSTEM_CLOCK), lambda status: None)
    with pytest.raises(
        ConfigError, match=r"memory://undecided cannot decide atomically; .* execution.target to emb"
    ):
        driver.run()
