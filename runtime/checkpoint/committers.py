"""Committers of a job's sinks, on the coordinator: they commit or abort prepared work in the external systems."""

from __future__ import annotations

import contextlib
from collections.abc import Container

from tidegate import faults
from tidegate.clock import Clock
from tidegate.connectors.spi import Sink, SupportsCommit, SupportsGlobalCommit, SupportsTakeOver
from tidegate.errors import CommitFailedError, UnavailableError
from tidegate.ids import OperatorUid
from tidegate.runtime.checkpoint.manifest import Manifest, Unsettled
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.operators.operator import Role
from tidegate.twophase.committing import Answers, SinkCommitters, work_by_sink
from tidegate.twophase.spi import (
    Answer,
    Committable,
    Committer,
    CommitterContext,
    Retry,
    SupportsClaim,
    SupportsFencing,
    SupportsOpenWork,
)

__all__ = ["Committers"]


class Committers:
    """One committer per sink that has any, opened when it is first needed; close them all in the end."""

    def __init__(
        self,
        pipeline: Pipeline,
        graph: JobGraph,
        clock: Clock,
        home: str,
        *,
        take_over: bool,
        running: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._home = home
        self._running = running
        sinks = {uid: node.payload for uid, node in graph.nodes.items() if node.kind.role is Role.SINK}
        if take_over:
            sinks = {uid: _taking_over(sink) for uid, sink in sinks.items()}
        self._sinks = {uid: sink for uid, sink in sinks.items() if isinstance(sink, SupportsCommit)}
        self._global = {uid: sink for uid, sink in sinks.items() if isinstance(sink, SupportsGlobalCommit)}
        self._committers = SinkCommitters(self._open)

    def commit(self, work: tuple[Committable, ...]) -> Answers:
        """Have decided work made visible; an answer for each piece.

        Raises:
            CommitFailedError: the program has no sink of that name any more.
            FencedError: the pipeline has a newer owner, who commits it.
        """
        answers: list[tuple[Committable, Answer]] = []
        for uid, mine in work_by_sink(work):
            try:
                self._committers.of(uid)
                self._pipeline.check_owner()
            except UnavailableError as error:
                answers += ((committable, Retry(str(error))) for committable in mine)
                continue
            faults.point("commit.before")
            answers += self._committers.commit(uid, mine)
        faults.point("commit.after")
        return tuple(answers)

    def abort(
        self, manifest: Manifest | None, uids: Container[OperatorUid] | None = None
    ) -> dict[OperatorUid, int]:
        """Abort all work of these sinks, or of all, that is neither visible nor needed to resume from a checkpoint.

        Nothing decided may wait for its commit.

        Returns:
            How many pieces were removed, for each sink that had any.

        Raises:
            FencedError: the pipeline has a newer owner, whose work is not touched.
        """
        removed = {uid: self._abort(uid, manifest) for uid in self._sinks if uids is None or uid in uids}
        return {uid: pieces for uid, pieces in removed.items() if pieces}

    def fence(self, uids: Container[OperatorUid] | None = None) -> None:
        """Have the systems outside refuse all writers of these sinks, or of all, that were opened before.

        Raises:
            FencedError: the pipeline has a newer owner, whose writers are not touched.
        """
        for uid in self._sinks:
            committer = self._committers.of(uid)
            if (uids is None or uid in uids) and isinstance(committer, SupportsFencing):
                self._pipeline.check_owner()
                committer.fence()

    def claim(self) -> None:
        """Renew what the sinks claim outside.

        Raises:
            ConfigError: a claim belongs to another pipeline.
            UnavailableError: a system did not answer.
        """
        for committer in map(self._committers.of, self._sinks):
            if isinstance(committer, SupportsClaim):
                committer.claim()

    def finish(self, settling: Unsettled) -> None:
        """Do what is left to do for whole sinks once all of a checkpoint's work is visible.

        Raises:
            FencedError: the pipeline has a newer owner, who does it.
            UnavailableError: a system did not answer; to be called again.
        """
        for uid, sink in self._global.items():
            mine = [committable for committable in settling.committables if committable.uid == uid]
            if mine:
                with contextlib.closing(sink.open_global_committer(self._context(uid))) as committer:
                    self._pipeline.check_owner()
                    committer.commit(settling.checkpoint, mine)

    def close(self) -> None:
        """Close what was opened."""
        self._committers.close()

    def _abort(self, uid: OperatorUid, manifest: Manifest | None) -> int:
        committer = self._committers.of(uid)
        if isinstance(committer, SupportsOpenWork):
            operator = manifest.operator(uid) if manifest is not None else None
            committer.keep_open(operator.writers if operator is not None else ())
        self._pipeline.check_owner()
        return committer.abort_except(())

    def _open(self, uid: OperatorUid) -> Committer:
        if uid not in self._sinks:
            raise CommitFailedError(
                f"sink {uid!r} holds decided work that is not visible yet, but this program has no such sink; "
                "give the sink this uid again"
            )
        committer = self._sinks[uid].open_committer(self._context(uid))
        with contextlib.ExitStack() as undo:
            undo.callback(committer.close)
            if isinstance(committer, SupportsClaim):
                self._pipeline.check_owner()
                committer.claim()
            undo.pop_all()
        return committer

    def _context(self, uid: OperatorUid) -> CommitterContext:
        pipeline, record = self._pipeline, self._pipeline.record
        return CommitterContext(
            pipeline.id,
            uid,
            record.lineage,
            self._clock,
            self._home,
            record.lease.term,
            pipeline.check_owner,
            self._running,
        )


def _taking_over(sink: Sink) -> Sink:
    return sink.taking_over() if isinstance(sink, SupportsTakeOver) else sink
