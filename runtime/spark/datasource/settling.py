"""Settles a decided batch: makes its output visible, and reports what to do if this is not possible.

Guarantee: idempotent, and safe in several processes at once; only the record decides what becomes visible.
"""

from __future__ import annotations

from typing import Final

from tidegate.clock import Clock
from tidegate.errors import CommitFailedError, CommitUnknownError, UnavailableError
from tidegate.faults import point
from tidegate.ids import CheckpointId
from tidegate.runtime.spark.datasource.batches import Batches, Record
from tidegate.twophase import committing, ledger
from tidegate.twophase.committing import Answers
from tidegate.twophase.spi import Committable, Committer, GlobalCommitter

__all__ = ["settle"]

PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.2


def settle(
    batches: Batches,
    record: Record,
    committer: Committer,
    clock: Clock,
    *,
    whole: GlobalCommitter | None = None,
    accepted: int | None = None,
) -> None:
    """Commit the work in `record`, remove work of other attempts, let the sink finish, and mark the batch as settled.

    Raises:
        CommitFailedError: some or all of it expired before it could be committed.
        CommitUnknownError: the outcome cannot be found out.
        UnavailableError: the system does not answer.
    """
    if record.state == "settled":
        return
    point("commit.before")
    if _commit(record, committer, clock, accepted):
        point("commit.after")
        now = batches.decided(record.batch)
        if now is None or now.state == "settled":
            # Another driver was faster, so prepared work may belong to its next batch.
            return
        # Only now: a removal before the decision could remove work that another process decides.
        committer.abort_except(())
        if whole is not None and record.work:
            whole.commit(CheckpointId(record.batch), record.work)
        point("checkpoint.before-settled")
        batches.conclude(record, "settled")
        point("checkpoint.after-settled")
        batches.forget(record.batch)
        return
    batches.conclude(record, "withdrawn")
    raise CommitFailedError(
        f"batch {record.batch}: its output expired before it could be committed; nothing of it is visible: "
        f"{ledger.described(record.work)}; the decision is withdrawn: start the query again, which writes the batch again"
    )


def _commit(record: Record, committer: Committer, clock: Clock, accepted: int | None) -> bool:
    """Whether everything is visible; False if nothing is, nor ever will be."""
    number = CheckpointId(record.batch)
    machine = ledger.Ledger(
        CheckpointId(record.batch - 1), None if accepted is None else CheckpointId(accepted)
    )
    deadline = clock.monotonic() + PATIENCE_S

    def commit(work: tuple[Committable, ...]) -> Answers:
        if machine.refused:
            _wait(record, machine, clock, deadline)
        return tuple(zip(work, committer.commit(work), strict=True))

    try:
        return committing.settle(machine, [ledger.Decided(number, record.work)], commit)
    except (CommitFailedError, CommitUnknownError) as error:
        error.add_note(
            f"a query of Spark continues without the lost output by .option('accept_loss', {record.batch})"
        )
        raise


def _wait(record: Record, machine: ledger.Ledger, clock: Clock, deadline: float) -> None:
    if clock.monotonic() > deadline:
        raise UnavailableError(
            f"batch {record.batch} is decided, but cannot be committed now: "
            f"{ledger.described(machine.refused, machine.refused)}; start the query again when the system answers, before its transactions expire"
        )
    clock.sleep(_PAUSE_S)
