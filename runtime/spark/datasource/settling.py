"""Makes the output of a decided batch visible, and says what is to be done if that cannot be.

Guarantee: idempotent, and safe to do in several processes at once; nothing but the record says what is to be visible.
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
    """Commit what `record` names, remove what lost against it, let the sink finish, and note that it is settled.

    Raises:
        CommitFailedError: some or all of it ran out before it could be committed.
        CommitUnknownError: nobody can tell.
        UnavailableError: the system does not answer.
    """
    if record.state == "settled":
        return
    point("commit.before")
    if _commit(record, committer, clock, accepted):
        point("commit.after")
        now = batches.decided(record.batch)
        if now is None or now.state == "settled":
            # Another driver was quicker, so what is prepared by now may be of a batch that it has gone on to.
            return
        # Only now: whoever removes before it has decided may remove what somebody else decides.
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
        f"batch {record.batch}: its output ran out before it could be committed; nothing of it is visible: "
        f"{ledger.described(record.work)}; the decision is withdrawn: start the query again and the batch is written anew"
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
            f"a query of Spark goes on without what is lost by .option('accept_loss', {record.batch})"
        )
        raise


def _wait(record: Record, machine: ledger.Ledger, clock: Clock, deadline: float) -> None:
    if clock.monotonic() > deadline:
        raise UnavailableError(
            f"batch {record.batch} is decided, but cannot be committed now: "
            f"{ledger.described(machine.refused, machine.refused)}; start the query again when the system answers, before its transactions run out"
        )
    clock.sleep(_PAUSE_S)
