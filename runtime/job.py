"""Job startup: the program, ownership of the pipeline, and the checkpoint to restore, the same for every executor.

`Startup` owns the pipeline from the start: it acquires the lease, finds the restore point, commits decided output,
aborts other output and redistributes state. Executors differ only in what they do afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Container, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from tidegate import faults, registry
from tidegate.backends.spi import Backend, CheckpointStorage, SnapshotFiles
from tidegate.backends.storage.files import StorageFiles
from tidegate.clock import Clock, new_id
from tidegate.connectors.spi import SupportsTakeOver
from tidegate.errors import ConfigError, JobFailedError, StateCorruptError, TidegateError, UnavailableError
from tidegate.ids import CheckpointId, LineageId, OperatorUid, PipelineId, RunId
from tidegate.runtime.batch import BatchProgress
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.claims import Claims
from tidegate.runtime.checkpoint.committers import Committers
from tidegate.runtime.checkpoint.coordinator import CheckpointCoordinator
from tidegate.runtime.checkpoint.lease import LeaseKeeper
from tidegate.runtime.checkpoint.manifest import Manifest, files_of
from tidegate.runtime.checkpoint.matching import Matching, parse_mapping
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.protocol import Plan
from tidegate.runtime.checkpoint.record import Record
from tidegate.runtime.checkpoint.restore import Restored, adopt_max_parallelism, redistribute
from tidegate.runtime.checkpoint.retention import Release
from tidegate.runtime.durations import readable_age
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.journals import journaled
from tidegate.runtime.graph.stream_graph import StreamGraph, build_stream_graph, with_watermark_interval
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.options import FIRST_MS, INTERVAL_MS, JobOptions
from tidegate.runtime.restoring import SnapshotRestore
from tidegate.twophase import ledger
from tidegate.twophase.committing import Answers, settle
from tidegate.twophase.spi import Committable, Retry

__all__ = ["Program", "StartPoint", "Startup"]

_NEVER_MS: Final = 2**62


@dataclass(frozen=True, slots=True)
class Program:
    """A user program: its steps, its name, its settings."""

    name: str
    pipeline: PipelineId
    sinks: tuple[Transformation, ...]
    options: JobOptions
    parallelism: int
    named: bool = True
    """Whether other runs may use the same pipeline id."""

    def graph(self, manifest: Manifest | None) -> JobGraph:
        """The job graph; restored state fixes the number of key groups."""
        steps = self.stream_graph(manifest)
        if steps.iterative and self.options.interval_ms is not None and not self.options.forced:
            raise ConfigError(
                "a program with iterations takes no checkpoints, because a restart would lose the records in its feedback "
                "edges; got execution.checkpointing.interval; leave it out, or accept the loss with "
                "enable_checkpointing(..., force=True)"
            )
        if steps.iterative and self.options.unaligned:
            raise ConfigError(
                "a program with iterations takes no unaligned checkpoints, because feedback edges carry no barriers; "
                "got execution.checkpointing.unaligned.enabled; leave it out"
            )
        job = build_job_graph(steps)
        return journaled(job, self.options.journaled) if self.options.granularity == "event" else job

    def stop_description(self) -> str:
        """A message: what a stop does."""
        graph = self.graph(None)
        if graph.batch or (graph.iterative and not self.options.forced):
            return "cancelling the job; no final checkpoint is possible"
        return "taking a final checkpoint"

    def checkpoint_obstacle(self, graph: JobGraph, *, decided: bool) -> str | None:
        """Why no checkpoint can be taken now; None if one can. `decided`: whether one was decided since the start."""
        if graph.batch and not decided:
            return f"no final checkpoint is possible: batch job {self.name!r} takes one only at its end"
        if graph.iterative and not self.options.forced:
            return f"no final checkpoint is possible: job {self.name!r} has iterations, and it would lose their in-flight records"
        return None

    def interval_ms(self, graph: JobGraph) -> int:
        """The checkpoint interval; practically infinite if checkpoints are off or iterations forbid them."""
        never = self.options.checkpointing == "NONE" or (graph.iterative and not self.options.forced)
        return self.options.interval_ms or (_NEVER_MS if never else INTERVAL_MS)

    def first_ms(self, graph: JobGraph) -> int | None:
        """The time until the first checkpoint; None if it is the checkpoint interval."""
        by_default = self.options.interval_ms is None and not self.options.pause_ms and not graph.batch
        return FIRST_MS if by_default and self.interval_ms(graph) == INTERVAL_MS else None

    def stream_graph(
        self, manifest: Manifest | None, regrouping: Collection[OperatorUid] = ()
    ) -> StreamGraph:
        """The program resolved; operators in `regrouping` may restore state with another number of key groups."""
        graph = build_stream_graph(
            self.sinks,
            parallelism=self.parallelism,
            max_parallelism=self.options.max_parallelism,
            restored=adopt_max_parallelism(manifest) if manifest is not None else {},
            regrouping=regrouping,
            chaining=self.options.operator_chaining,
            mode=self.options.mode,
        )
        every_ms = self.options.watermark_interval_ms
        return graph if every_ms is None else with_watermark_interval(graph, every_ms)

    def matching(self, manifest: Manifest) -> Matching:
        """Match the operators of another run's checkpoint with the steps of this program.

        Raises:
            ConfigError: a pair of --map is invalid.
        """
        options = self.options
        return Matching(
            manifest,
            self.stream_graph(None).nodes,
            parse_mapping(options.state_map),
            unclaimed=options.ignore_unclaimed,
        )


@dataclass(frozen=True, slots=True)
class StartPoint:
    """The state from which a run or a restarted attempt starts."""

    graph: JobGraph
    manifest: Manifest | None
    restored: Restored
    batch: BatchProgress | None = None
    """Results of earlier attempts of a batch job; None for a streaming job."""
    owner: str = ""
    """Identity of the pipeline for names outside: its id and, if it is named, its checkpoint storage."""

    @property
    def ended(self) -> dict[OperatorUid, bytes] | None:
        """Final states of finished sources of a batch job; see `Enumerators`."""
        return self.batch.ended if self.batch is not None else None

    @property
    def checkpoint(self) -> CheckpointId | None:
        """The id of the restored checkpoint."""
        return self.manifest.checkpoint if self.manifest is not None else None


class Startup:
    """Acquires a pipeline and finds the state that each attempt starts from."""

    def __init__(
        self, program: Program, storage: CheckpointStorage, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self.program = program
        self.run = RunId(new_id())
        self.pipeline = Pipeline(storage, program.pipeline, self.run, clock, program.options.lease_ms)
        self.lease = LeaseKeeper(self.pipeline, program.options.lease_ms / 3_000)
        self.backend = _backend(program.options.backend)
        self.storage = storage
        self.resumed_from: CheckpointId | None = None
        self._coordinator: CheckpointCoordinator | None = None
        """The status of the newest attempt."""
        self._found: Record | None = None
        """The record of the previous run, if there was one."""
        self._claimed = False
        """Whether an attempt has claimed external names; later claims of other pipelines are respected."""
        self._clock = clock
        self.say = say

    def files(self) -> SnapshotFiles:
        """The snapshot files of this run."""
        return StorageFiles(self.storage.blobs, f"{self.run}/shared", self.program.options.inline_bytes)

    def stand_by(self) -> Record | None:
        """Wait while another process owns the pipeline; returns its record if its job ended, None if this process is to start.

        Raises:
            JobFailedError: the job of the active process failed.
        """
        ended = self.pipeline.acquirer.stand_by(self.say)
        if ended is not None and ended.status == "failed":
            raise JobFailedError(
                f"the active run {ended.lease.run} of job {self.program.name!r} failed; this standby exits"
            )
        return ended

    @contextlib.contextmanager
    def owning(self) -> Iterator[None]:
        """Acquire the pipeline and renew its lease until the end of the block."""
        self.acquire()
        with self.lease:
            yield

    def acquire(self) -> None:
        """Become the owner of the pipeline; checks the program first."""
        if self.storage.decisions is None:
            self.say(
                f"storage {self.storage.url} has no atomic swap: two starts of pipeline "
                f"{self.pipeline.id!r} at the same moment can corrupt its checkpoints; make sure that there is only one"
            )
        options = self.program.options
        graph = self.program.graph(None)
        if options.take_over and not any(
            node.kind.role is Role.SINK and isinstance(node.payload, SupportsTakeOver)
            for node in graph.nodes.values()
        ):
            raise ConfigError(
                "--take-over has no effect: no sink of this program holds an external claim; leave it out"
            )
        if options.fresh and options.savepoint:
            raise ConfigError(
                "--fresh starts without state and -s starts from a checkpoint; got both; give one of them"
            )
        if options.replay_from is not None and (options.fresh or options.savepoint):
            raise ConfigError("--replay-from restores a checkpoint; got --fresh or -s too; give one of them")
        before = self.pipeline.acquire(
            lambda: LineageId(new_id(8)),
            fresh=options.fresh,
            say=self.say,
            restoring_older=options.savepoint is not None,
        )
        self._found = self.pipeline.acquirer.record
        try:
            with self.lease:
                self._begin(before)
        except BaseException:
            with contextlib.suppress(TidegateError):
                self.pipeline.leave(before.status if before and before.status != "running" else "failed")
            raise
        retained = self.pipeline.record.retained
        self.resumed_from = retained[-1].checkpoint if retained else None

    def _begin(self, before: Record | None) -> None:
        """Select the start point of the program and delete leftovers of the previous run."""
        options = self.program.options
        if options.savepoint is not None:
            self._newest_settled()
            SnapshotRestore(self).go_to(options.savepoint)
        elif options.replay_from is not None:
            SnapshotRestore(self).replay_from(options.replay_from)
        for run in {before.lease.run, *(known.run for known in before.retained)} if before else ():
            self._sweep(run)
        self.storage.blobs.reserve(f"{self.run}/taskowned")

    def start_point(self) -> StartPoint:
        """Commit decided output, abort the rest, and return the checkpoint to resume from.

        Raises:
            CommitFailedError: output of a decided checkpoint is partly lost.
            CommitUnknownError: the outcome of a commit is unknown.
        """
        self.pipeline.refresh()
        manifest = self._newest(self._load)
        first = not self._claimed
        if first and self.program.named:
            self.say(self._beginning(manifest))
        self._sweep(self.run)
        graph = self.program.graph(manifest)
        if graph.batch and manifest is not None and not manifest.batch:
            raise ConfigError(
                f"checkpoint {manifest.checkpoint} of pipeline {self.pipeline.id!r} was taken by a streaming run; a batch run "
                "cannot restore it; set execution.runtime-mode to STREAMING, or start without state with --fresh"
            )
        with contextlib.closing(self.committers(graph)) as committers:
            removed = committers.abort(manifest)
            # A stopped writer had already opened its next file or transaction; aborting it loses nothing.
            if not (first and self._found is not None and self._found.status in ("finished", "stopped")):
                for uid, pieces in removed.items():
                    self.say(f"sink {uid!r}: aborted {pieces} prepared transactions that were never decided")
            committers.fence()
        self._claimed = True
        return StartPoint(graph, manifest, self._redistributed(graph, manifest), owner=self._owner)

    def _beginning(self, manifest: Manifest | None) -> str:
        """A message: where this run starts."""
        if manifest is not None:
            age = readable_age(max(0, self._clock.now_ms() - manifest.created_ms))
            return f"resuming from checkpoint {manifest.checkpoint}, taken {age} ago"
        name = self.pipeline.id
        if self.program.options.fresh:
            return f"starting without state: --fresh ignores the checkpoints of {name!r}"
        if self._found is not None and self._found.status in ("finished", "canceled"):
            ended = "finished" if self._found.status == "finished" else "was cancelled"
            return f"starting without state: the last run of {name!r} {ended}; this run reads its input from the beginning"
        return f"starting without state: {name!r} has no checkpoint yet"

    def region_start_point(self, graph: JobGraph, uids: Container[OperatorUid]) -> StartPoint:
        """The start point of a failover region while other regions run; all decided output is visible.

        Raises:
            FencedError: another run owns the pipeline and its prepared output.
        """
        self.pipeline.refresh()
        retained = self.pipeline.record.retained
        manifest = self._load(retained[-1]) if retained else None
        with contextlib.closing(self.committers(graph)) as committers:
            committers.abort(manifest, uids)
            committers.fence(uids)
        return StartPoint(graph, manifest, self._redistributed(graph, manifest), owner=self._owner)

    def _redistributed(self, graph: JobGraph, manifest: Manifest | None) -> Restored:
        if manifest is None:
            return {}
        return redistribute(graph, manifest, unclaimed=self.program.options.ignore_unclaimed)

    @property
    def _home(self) -> str:
        # A generated pipeline id has no other owner, and each run would leave a claim behind.
        return self.storage.url if self.program.named else ""

    @property
    def _owner(self) -> str:
        return f"{self.pipeline.id} {self._home}".strip()

    def committers(self, graph: JobGraph) -> Committers:
        """The committers of the sinks of a graph, for the coordinator; the caller closes them."""
        asked = self.program.options.take_over and not self._claimed
        return Committers(
            self.pipeline, graph, self._clock, self._home, take_over=asked, running=self._claimed
        )

    def claims(self, graph: JobGraph) -> Claims:
        """Renews the external claims of the sinks of a graph while it runs."""
        return Claims(partial(self.committers, graph), self._clock)

    def coordinator(
        self,
        graph: JobGraph,
        start: StartPoint,
        *,
        interval_ms: int | None = None,
        tolerated: int | None = None,
    ) -> CheckpointCoordinator:
        """The checkpoint coordinator of an attempt; `interval_ms` overrides the checkpoint interval of the program,
        `tolerated` is the number of tolerated failures if the program sets none."""
        options = self.program.options
        first = CheckpointId(self.pipeline.record.newest_id + 1)
        if self._coordinator is not None:
            first = max(first, self._coordinator.next_id)
        overtaking = options.unaligned and interval_ms is None and not graph.batch
        plan = Plan(
            subtasks=tuple(graph.subtasks),
            sources=tuple(
                subtask
                for vertex in graph.vertices.values()
                if vertex.is_source
                for subtask in vertex.subtasks
            ),
            interval_ms=self.program.interval_ms(graph) if interval_ms is None else interval_ms,
            timeout_ms=_NEVER_MS if graph.batch else options.timeout_ms,
            retained=options.retained,
            tolerated=tolerated if options.tolerated_failures is None else options.tolerated_failures,
            pause_ms=options.pause_ms if interval_ms is None else 0,
            aligned_ms=options.aligned_ms if overtaking else None,
            first_ms=self.program.first_ms(graph) if interval_ms is None else None,
        )
        self._coordinator = CheckpointCoordinator(
            plan,
            first,
            confirmed=start.checkpoint,
            registry=self.pipeline.archive.registry(self.pipeline.record.retained, options.retained),
        )
        return self._coordinator

    def leave(self, status: Literal["finished", "stopped", "canceled"]) -> None:
        """Release the pipeline and delete files that no checkpoint refers to."""
        self.pipeline.leave(status)
        # The run has ended successfully; files that cannot be deleted now are deleted by the next start.
        with contextlib.suppress(TidegateError):
            if status == "canceled" and self.program.options.retention == "DELETE_ON_CANCELLATION":
                all_of_them = tuple(known.checkpoint for known in self.pipeline.record.retained)
                self.pipeline.release(Release(all_of_them, self.retained_files()))
            self._sweep(self.run)

    def _sweep(self, run: RunId) -> None:
        """Delete files of ended subtasks, such as an unfinished base."""
        self.pipeline.archive.sweep(run, self.pipeline.record.retained, self.pipeline.check_owner)

    def retained_files(self) -> frozenset[str]:
        """The files that the readable retained checkpoints refer to."""
        files: set[str] = set()
        for known in self.pipeline.record.retained:
            with contextlib.suppress(StateCorruptError):
                files |= files_of(self.pipeline.archive.load(known))
        return frozenset(files)

    def _newest(self, load: Callable[[Retained], Manifest]) -> Manifest | None:
        """The newest checkpoint after its output is visible; if that was aborted, the one before."""
        retained = self.pipeline.record.retained
        manifest = load(retained[-1]) if retained else None
        if manifest is None or self._settle(manifest, retained):
            return manifest
        back = self.pipeline.archive.newest_settled(retained)
        self.say(
            f"output of checkpoint {manifest.checkpoint} was aborted; restoring {back.checkpoint if back else 'the start'}"
        )
        self.pipeline.go_back(back)
        return load(back) if back else None

    def _load(self, retained: Retained) -> Manifest:
        """A checkpoint with the uids of the program; checkpoints of this run already have them."""
        manifest = self.pipeline.archive.load(retained)
        return manifest if manifest.run == self.run else self.program.matching(manifest).matched()

    def _to_be_settled(self, retained: Retained) -> Manifest:
        """A checkpoint that is loaded only to commit its output; each sink commits only its own output."""
        manifest = self.pipeline.archive.load(retained)
        sinks = {each.uid for unsettled in manifest.unsettled for each in unsettled.committables}
        matching = Matching(manifest, self.program.stream_graph(None).nodes, {}, unclaimed=True)
        return matching.matched() if sinks & matching.undecided.keys() else manifest

    def _newest_settled(self) -> None:
        """Make all decided output visible before the pipeline restores another snapshot."""
        retained = self.pipeline.record.retained
        if not retained or self.pipeline.archive.settled(retained[-1]):
            return
        try:
            self._newest(self._to_be_settled)
        except StateCorruptError as error:
            raise StateCorruptError(
                f"checkpoint {retained[-1].checkpoint} of pipeline {self.pipeline.id!r} is decided, but its metadata cannot be "
                f"read, so its output may or may not be visible: {error}; restore the file from a backup; or check the output "
                "and start under another pipeline.id with -s and the path of an older checkpoint, which writes all later "
                "output again"
            ) from error

    def _settle(self, manifest: Manifest, retained: tuple[Retained, ...]) -> bool:
        """Commit unsettled output; False if all output of the oldest unsettled checkpoint was aborted."""
        settled = self.pipeline.archive.newest_settled(retained)
        unsettled = [u for u in manifest.unsettled if settled is None or u.checkpoint > settled.checkpoint]
        accepted = self.program.options.accept_loss
        if any(u.checkpoint == accepted for u in unsettled):
            self.say(
                f"resuming from checkpoint {accepted} although its output may be lost, as requested by --accept-loss"
            )
        book = ledger.Ledger(
            settled.checkpoint if settled is not None else ledger.NOTHING_SETTLED,
            accepted=None if accepted is None else CheckpointId(accepted),
        )
        faults.point("restore.before-settle")
        with contextlib.closing(self.committers(self.program.graph(manifest))) as committers:

            def mark(checkpoint: CheckpointId) -> None:
                for each in unsettled:
                    if each.checkpoint == checkpoint:
                        committers.finish(each)
                for known in retained:
                    if known.checkpoint == checkpoint:
                        self.pipeline.archive.mark_settled(known)

            decided = (ledger.Decided(u.checkpoint, u.committables) for u in unsettled)
            visible = settle(book, decided, partial(self._commit, committers), mark)
        if visible:
            faults.point("restore.after-settle")
        return visible

    def _commit(self, committers: Committers, work: tuple[Committable, ...]) -> Answers:
        answers = committers.commit(work)
        refused = {work: answer.reason for work, answer in answers if isinstance(answer, Retry)}
        if len(refused) == len(answers):
            raise UnavailableError(
                f"decided output could not be committed: {ledger.described(refused, refused)}; nothing is lost; repair the "
                "cause and start again"
            )
        return answers


def _backend(name: str) -> Backend:
    backend = registry.load("tidegate.backends", name)()
    if not isinstance(backend, Backend):
        raise ConfigError(
            f"state.backend.type {name!r} only reads savepoints and cannot keep state; use heap, filesystem or rocksdb"
        )
    return backend
