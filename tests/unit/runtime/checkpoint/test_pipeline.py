"""Who may own a pipeline, decided on real storages and, where it matters, by real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.runtime.checkpoint.full import Full, Undecided
from tidegate.backends.spi import Blobs, CheckpointStorage, Decision, Decisions
from tidegate.backends.storage import LocalStorage, MemoryStorage
from tidegate.clock import SYSTEM_CLOCK, Clock, ManualClock
from tidegate.errors import ConfigError, FencedError, InternalError, UnavailableError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.manifest import Manifest, Unsettled
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.record import Record
from tidegate.runtime.checkpoint.retention import Release
from tidegate.twophase.spi import Committable

ORDERS = PipelineId("orders")
HOLDER = """
import sys
from pathlib import Path
from tidegate.backends.storage import LocalStorage
from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import FencedError
from tidegate.ids import CheckpointId, LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.pipeline import Pipeline

pipeline = Pipeline(LocalStorage(Path(sys.argv[1])), PipelineId("orders"), RunId("holder"), SYSTEM_CLOCK)
pipeline.acquire(lambda: LineageId("theirs"), fresh=False, say=print)
pipeline.decide(CheckpointId(4))
print("owned", flush=True)
sys.stdin.read()
for act in (pipeline.renew, lambda: pipeline.decide(CheckpointId(5)), lambda: pipeline.leave("finished")):
    try:
        act()
        print("done")
    except FencedError as error:
        print("fenced:", error)
"""


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStorage:
    return LocalStorage(tmp_path / "state") if request.param == "local" else MemoryStorage()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the pipeline on a local storage and has decided checkpoint 4."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, str(tmp_path / "state")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "owned\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def start(
    storage: CheckpointStorage,
    run: str,
    *,
    clock: Clock = SYSTEM_CLOCK,
    said: list[str] | None = None,
    **how: Any,
) -> Pipeline:
    """A run that acquires the pipeline."""
    pipeline = Pipeline(storage, ORDERS, RunId(run), clock)
    say = said.append if said is not None else print
    pipeline.acquire(lambda: LineageId(f"lineage of {run}"), say=say, **{"fresh": False, **how})
    return pipeline


def write(pipeline: Pipeline, checkpoint: int, *work: Committable) -> Retained:
    """Make a checkpoint durable and decide it."""
    number = CheckpointId(checkpoint)
    pipeline.archive.write(
        Manifest(
            ORDERS, LineageId("l"), Branch(0), pipeline.run, number, None, 0, (), (Unsettled(number, work),)
        )
    )
    pipeline.decide(number)
    return Retained(pipeline.run, number)


def stored(storage: CheckpointStorage) -> Record:
    assert storage.decisions is not None
    decision = storage.decisions.read("orders/latest")
    assert decision is not None
    return msgspec.msgpack.decode(decision.data, type=Record)


def overwrite(storage: CheckpointStorage, record: Record) -> None:
    """What another owner would leave."""
    assert storage.decisions is not None
    decision = storage.decisions.read("orders/latest")
    tag = decision.tag if decision is not None else None
    assert storage.decisions.swap("orders/latest", tag, msgspec.msgpack.encode(record))


def work(checkpoint: int) -> Committable:
    return Committable(OperatorUid("sink"), 0, CheckpointId(checkpoint), b"", f"part-{checkpoint}", 5)


def test_the_first_start_begins_a_lineage(storage: CheckpointStorage) -> None:
    pipeline = start(storage, "first")

    record = stored(storage)
    assert record == pipeline.record
    assert (record.lineage, record.status, record.lease.term, record.lease.pid) == (
        "lineage of first",
        "running",
        1,
        os.getpid(),
    )


def test_a_second_live_start_is_refused_and_told_by_whom(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    lease = stored(LocalStorage(tmp_path / "state")).lease

    with pytest.raises(
        ConfigError, match="the pipeline is already running as run holder in process"
    ) as caught:
        start(LocalStorage(tmp_path / "state"), "second")

    message = str(caught.value)
    assert message.endswith(
        f"in process {holder.pid} on host {lease.host}; stop it first: tidegate stop orders"
    )
    assert message.startswith("pipeline 'orders': ")


def test_a_dead_holder_is_replaced_at_once_and_its_history_goes_on(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    clock, said = ManualClock(), list[str]()

    pipeline = start(LocalStorage(tmp_path / "state"), "second", clock=clock, said=said)

    assert clock.now_ms() == 0, "nobody had to wait"
    assert said == []
    assert (pipeline.record.lineage, pipeline.record.lease.term) == ("theirs", 2)
    assert pipeline.record.retained == (Retained(RunId("holder"), CheckpointId(4)),)


def test_a_process_that_was_taken_for_dead_decides_nothing_more(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    storage = LocalStorage(tmp_path / "state")
    away = msgspec.structs.replace(stored(storage).lease, host="far", boot_id="other")
    overwrite(storage, msgspec.structs.replace(stored(storage), lease=away))
    taken = start(storage, "second", clock=ManualClock())

    told, _ = holder.communicate("")

    assert [line.split(":")[0] for line in told.splitlines()] == ["fenced"] * 3
    assert f"now owned by run second (pid {os.getpid()}" in told
    assert stored(storage) == taken.record


@pytest.mark.parametrize("act", ["decide", "renew", "refresh", "leave", "release", "go_back", "open_branch"])
def test_a_fenced_owner_can_do_nothing_any_more(storage: CheckpointStorage, act: str) -> None:
    first = start(storage, "first")
    kept = write(first, 1)
    lease = msgspec.structs.replace(first.record.lease, run=RunId("second"), pid=99, host="elsewhere")
    overwrite(storage, msgspec.structs.replace(first.record, lease=lease))
    acts: dict[str, Callable[[], None]] = {
        "decide": lambda: first.decide(CheckpointId(2)),
        "renew": first.renew,
        "refresh": first.refresh,
        "leave": lambda: first.leave("finished"),
        "release": lambda: first.release(Release((CheckpointId(1),), frozenset())),
        "go_back": lambda: first.go_back(None),
        "open_branch": lambda: first.open_branch(kept),
    }

    with pytest.raises(
        FencedError,
        match=r"pipeline 'orders' is now owned by run second \(pid 99 on elsewhere\); run first stops",
    ):
        acts[act]()
    assert stored(storage).lease == lease
    assert stored(storage).retained == (kept,)


def test_a_holder_elsewhere_is_waited_for_and_then_replaced(storage: CheckpointStorage) -> None:
    foreign = start(storage, "far")
    overwrite(
        storage,
        msgspec.structs.replace(
            foreign.record, lease=msgspec.structs.replace(foreign.record.lease, host="far", boot_id="other")
        ),
    )
    clock, said = ManualClock(), list[str]()

    pipeline = start(storage, "near", clock=clock, said=said)

    assert clock.now_ms() == 10_000
    assert said == [
        f"pipeline 'orders' was owned by pid {os.getpid()} on far; waiting 10 s to see whether it is alive"
    ]
    assert pipeline.record.lease.term == 2


def test_a_holder_elsewhere_that_renews_is_waited_for_anew(storage: CheckpointStorage) -> None:
    foreign = start(storage, "far")
    away = msgspec.structs.replace(foreign.record.lease, host="far", boot_id="other")
    overwrite(storage, msgspec.structs.replace(foreign.record, lease=away))

    class Renewing(ManualClock):
        """While somebody sleeps, the holder elsewhere renews, twice."""

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.now_ms() in (4_000, 9_000):
                overwrite(
                    storage, msgspec.structs.replace(stored(storage), renewals=stored(storage).renewals + 1)
                )

    clock = Renewing()
    start(storage, "near", clock=clock)

    assert clock.now_ms() == 19_000


@pytest.mark.parametrize("status", ["stopped", "failed"])
def test_a_pipeline_given_up_goes_on_at_once(storage: CheckpointStorage, status: Any) -> None:
    first = start(storage, "first")
    write(first, 1)
    first.leave(status)

    second = start(storage, "second")

    assert second.record.lineage == "lineage of first"
    assert [known.checkpoint for known in second.record.retained] == [1]


def test_after_a_finished_run_a_new_lineage_begins(storage: CheckpointStorage) -> None:
    first = start(storage, "first")
    write(first, 1)
    first.leave("finished")

    second = start(storage, "second")

    assert (second.record.lineage, second.record.retained, second.record.newest_id) == (
        "lineage of second",
        (),
        0,
    )


def test_a_finished_lineage_goes_on_if_a_checkpoint_of_it_is_asked_for(storage: CheckpointStorage) -> None:
    first = start(storage, "first")
    kept = write(first, 1)
    first.leave("finished")

    second = start(storage, "second", restoring_older=True)

    assert (second.record.lineage, second.record.retained) == ("lineage of first", (kept,))


def test_fresh_forgets_what_is_settled(storage: CheckpointStorage) -> None:
    first = start(storage, "first")
    first.archive.mark_settled(write(first, 1, work(1)))
    first.leave("stopped")

    assert start(storage, "second", fresh=True).record.retained == ()


def test_fresh_is_refused_over_decided_work_that_is_not_settled(storage: CheckpointStorage) -> None:
    first = start(storage, "first")
    write(first, 1, work(1))
    first.leave("stopped")

    with pytest.raises(
        ConfigError,
        match="checkpoint 1 is decided but not settled, so --fresh could lose its output; "
        "start once without --fresh to settle it",
    ):
        start(storage, "second", fresh=True)
    assert stored(storage).lineage == "lineage of first"


def test_numbers_go_on_after_going_back_and_in_a_branch(storage: CheckpointStorage) -> None:
    pipeline = start(storage, "first")
    one, two, _ = (write(pipeline, number) for number in (1, 2, 3))

    pipeline.go_back(two)
    assert (pipeline.record.retained, pipeline.record.newest_id, pipeline.record.branch) == ((one, two), 3, 0)
    pipeline.open_branch(one)
    assert (pipeline.record.retained, pipeline.record.newest_id, pipeline.record.branch) == ((one,), 3, 1)
    pipeline.go_back(None)
    assert pipeline.record.retained == ()


@pytest.mark.parametrize(("status", "first"), [("stopped", 2), ("failed", 3)])
def test_a_number_that_a_run_may_have_died_at_is_passed_over(
    storage: CheckpointStorage, status: Any, first: int
) -> None:
    pipeline = start(storage, "first")
    write(pipeline, 1)
    assert [pipeline.record.passes_over(CheckpointId(number)) for number in (2, 3)] == [True, False]
    pipeline.leave(status)

    assert start(storage, "second").record.newest_id + 1 == first


def test_a_number_behind_undecided_ones_is_written_down_before_it_is_used(storage: CheckpointStorage) -> None:
    pipeline = start(storage, "first")
    write(pipeline, 1)
    pipeline.use(CheckpointId(2))
    assert stored(storage).newest_id == 1, "nothing needs to be written"
    pipeline.use(CheckpointId(4))
    assert stored(storage).newest_id == 3
    pipeline.leave("failed")

    assert start(storage, "second").record.newest_id + 1 == 5


def test_release_forgets_first_and_leaves_nothing_of_a_checkpoint(storage: CheckpointStorage) -> None:
    pipeline = start(storage, "first")
    one, two = write(pipeline, 1), write(pipeline, 2)
    pipeline.archive.mark_settled(one)
    pipeline.archive.mark_settled(two)
    storage.blobs.put("first/shared/old", b"old")

    pipeline.release(Release((CheckpointId(1),), frozenset({"first/shared/old"})))

    assert stored(storage).retained == (two,)
    assert storage.blobs.list("first/") == ["first/chk-2/_metadata", "first/chk-2/_settled"]


@pytest.mark.parametrize("step", ["swap", "delete"])
def test_what_a_storage_does_not_release_goes_with_the_next(storage: CheckpointStorage, step: str) -> None:
    full = Full(storage)
    pipeline = start(full, "first")
    for number in (1, 2, 3):
        pipeline.archive.mark_settled(write(pipeline, number))
    storage.blobs.put("first/shared/old", b"old")
    full.full = {step}
    with pytest.raises(UnavailableError, match="no space left"):
        pipeline.release(Release((CheckpointId(1),), frozenset({"first/shared/old"})))
    assert "first/shared/old" in storage.blobs.list("first/")

    full.full = set()
    pipeline.release(Release((CheckpointId(2),)))

    assert [known.checkpoint for known in stored(storage).retained] == [3]
    assert storage.blobs.list("first/") == ["first/chk-3/_metadata", "first/chk-3/_settled"]


def test_a_change_that_a_full_storage_did_not_take_never_happened(storage: CheckpointStorage) -> None:
    full = Full(storage)
    pipeline = start(full, "first")
    full.full = {"swap"}
    with pytest.raises(UnavailableError, match="no space left"):
        write(pipeline, 1)
    assert pipeline.unchanged()

    full.full = set()
    write(pipeline, 2)

    assert [known.checkpoint for known in stored(storage).retained] == [2]


def test_sweep_removes_what_a_dead_run_left_and_nothing_else(storage: CheckpointStorage) -> None:
    first = start(storage, "first")
    _, two = write(first, 1), write(first, 2)
    first.archive.mark_settled(two)
    storage.blobs.put("first/shared/garbage", b"")
    storage.blobs.put("first/chk-3/_metadata", b"never decided")
    storage.blobs.put("first/claims/3/totals-0-1", b"")
    storage.blobs.put("second/shared/mine", b"")

    assert first.archive.sweep(RunId("first"), [two], first.check_owner) == 4
    left = [name for name in storage.blobs.list("") if not name.startswith("orders/latest")]
    assert left == ["first/chk-2/_metadata", "first/chk-2/_settled", "second/shared/mine"]
    assert first.archive.load(two).checkpoint == 2


def test_nothing_is_swept_while_a_retained_checkpoint_cannot_be_read(storage: CheckpointStorage) -> None:
    first = start(storage, "first")
    one = write(first, 1)
    storage.blobs.put("first/chk-1/_metadata", b"damaged")
    storage.blobs.put("first/shared/perhaps", b"")

    assert first.archive.sweep(RunId("first"), [one], first.check_owner) == 0
    assert "first/shared/perhaps" in storage.blobs.list("first/")


def test_a_damaged_old_checkpoint_stays_out_of_the_count_of_files(storage: CheckpointStorage) -> None:
    first = start(storage, "first")
    known = [write(first, 1), write(first, 2)]
    storage.blobs.put("first/chk-1/_metadata", b"damaged")

    assert first.archive.registry(known, keep=3).checkpoints == (1, 2)


class Forgetful(CheckpointStorage):
    """Swaps, and then says that the storage did not answer."""

    url = "memory://forgetful"

    def __init__(self, inner: CheckpointStorage) -> None:
        self._inner = inner
        self.silent = False

    @property
    def blobs(self) -> Blobs:
        return self._inner.blobs

    @property
    def decisions(self) -> Decisions:
        assert self._inner.decisions is not None
        return _ForgetfulDecisions(self._inner.decisions, self)


class _ForgetfulDecisions(Decisions):
    def __init__(self, inner: Decisions, storage: Forgetful) -> None:
        self._inner = inner
        self._storage = storage

    def create(self, name: str, data: bytes) -> bool:
        return self._inner.create(name, data)

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        swapped = self._inner.swap(name, old_tag, data)
        if self._storage.silent:
            raise UnavailableError("the storage did not answer")
        return swapped

    def read(self, name: str) -> Decision | None:
        return self._inner.read(name)


def test_a_decision_whose_answer_was_lost_counts_after_a_refresh(storage: CheckpointStorage) -> None:
    unreliable = Forgetful(storage)
    pipeline = start(unreliable, "first")
    unreliable.silent = True
    with pytest.raises(UnavailableError, match="did not answer"):
        write(pipeline, 1)
    unreliable.silent = False
    with pytest.raises(
        UnavailableError, match="an earlier change of this run whose answer was lost; refresh"
    ):
        pipeline.renew()
    assert not pipeline.unchanged()

    pipeline.refresh()

    assert [known.checkpoint for known in pipeline.record.retained] == [1]
    write(pipeline, 2)
    assert [known.checkpoint for known in stored(storage).retained] == [1, 2]


def test_a_pipeline_must_be_acquired_before_it_is_used(storage: CheckpointStorage) -> None:
    with pytest.raises(InternalError, match="pipeline 'orders' is used before it was acquired"):
        Pipeline(storage, ORDERS, RunId("first"), SYSTEM_CLOCK).renew()


def test_a_storage_that_cannot_decide_serves_one_writer_after_another(storage: CheckpointStorage) -> None:
    undecided = Undecided(storage)
    first = start(undecided, "first")
    first.archive.mark_settled(write(first, 1))
    first.leave("stopped")

    second = start(undecided, "second")
    write(second, 2)

    assert [known.checkpoint for known in second.record.retained] == [1, 2]
    with pytest.raises(FencedError, match="is now owned by run second"):
        first.renew()
