"""Committer of the database sink.

The outcome of a piece of work is read from the database:

| staged: row in `tidegate_work` | prepared: transaction | row | answer |
|---|---|---|---|
| there, not committed | there | | `COMMITTED`: applied or committed now |
| there, committed | gone | there | `ALREADY_COMMITTED`: the row became visible with the rows |
| gone | gone | gone | `ABORTED`, or `UNKNOWN` if it is so old that its row may have been deleted |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tidegate.connectors.database.bookkeeping import Bookkeeping
from tidegate.connectors.database.session import Session
from tidegate.connectors.database.statements import apply
from tidegate.connectors.database.writer import DatabaseWork, decode_work
from tidegate.errors import ConfigError, RecordError, StateFormatError, TidegateError, UnavailableError
from tidegate.faults import point
from tidegate.twophase.naming import WorkName, parse_work
from tidegate.twophase.spi import Answer, CommitAnswer, Committable, Committer, CommitterContext, Retry

__all__ = ["DatabaseCommitter"]

_REFUSALS: Final = (ConfigError, RecordError, UnavailableError)


class DatabaseCommitter(Committer):
    """Applies staged rows, commits prepared transactions, and removes undecided work.

    Args:
        connect: Opens a session.
        schema: The schema of the sink's own tables.
        owner: The name of the operator from `owner_name`.
        prefix: The prefix of the names of its prepared transactions.
        take_over: Whether the claim of another pipeline is replaced.
        creates: Whether the sink's own tables are created; a sink that commits nothing uses only existing ones.
        context: The operator whose work it may change.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        schema: str | None,
        owner: str,
        prefix: str,
        take_over: bool,
        creates: bool,
        context: CommitterContext,
    ) -> None:
        self._connect = connect
        self._schema = schema
        self._owner = owner
        self._prefix = prefix
        self._take_over = take_over
        self._creates = creates
        self._context = context
        self._opened: tuple[Session, Bookkeeping] | None = None

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        """Commit each, in the order of checkpoints.

        Raises:
            StateFormatError: another version wrote a payload; nothing was done.
        """
        works = [self._decoded(each) for each in committables]
        order = sorted(
            range(len(works)), key=lambda at: (committables[at].subtask, committables[at].checkpoint)
        )
        answers: dict[int, Answer] = {}
        refused: dict[int, Retry] = {}
        for at in order:
            subtask = committables[at].subtask
            if subtask in refused:  # newer work must not be committed before older work
                answers[at] = refused[subtask]
                continue
            if answers:
                point("commit.between")
            try:
                session, books = self._session()
                answers[at] = _commit(session, books, works[at])
            except _REFUSALS as error:
                self.close()
                answers[at] = refused[subtask] = Retry(str(error))
        return [answers[at] for at in range(len(works))]

    def claim(self) -> None:
        """Check that the work of this operator is claimed by this pipeline.

        Raises:
            ConfigError: a pipeline with checkpoints elsewhere has claimed it, or this user may not read the claims.
            UnavailableError: the database does not answer.
        """
        session, books = self._session()
        if self._creates or session.catalog.exists(books.tables.work):
            books.ownership.claim(self._context.home, take_over=self._take_over)

    def abort_except(self, keep: Sequence[Committable]) -> int:
        """Remove staged rows and prepared transactions of this operator, of all lineages and attempts.

        Raises:
            ConfigError: another pipeline has claimed them; nothing was done.
            FencedError: the pipeline has a newer owner; nothing was done.
        """
        self.claim()
        session, books = self._session()
        if not session.catalog.exists(books.tables.work):
            return 0
        kept = {self._decoded(each).name for each in keep}
        pieces = [
            each for each in books.work.pieces() if self._is_removable(parse_work(each.name), each.term, kept)
        ]
        names = self._prepared(session, kept)
        self._context.check_owner()
        point("abort.before")
        removed = sum(map(books.work.remove, pieces))
        if session.prepared is not None:
            removed += sum(session.prepared.finish(name, commit=False) for name in names)
        return removed

    def fence(self) -> None:
        """Fence writers that were opened before; roll back work that one of them has just prepared, because its lock blocks this.

        Raises:
            FencedError: the pipeline has a newer owner.
        """
        session, books = self._session()
        if not session.catalog.exists(books.tables.work):
            return
        try:
            books.ownership.fence(self._context.term, take_over=self._take_over)
        except UnavailableError:
            self.abort_except(())
            books.ownership.fence(self._context.term, take_over=self._take_over)

    def close(self) -> None:
        """Disconnect."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            opened[0].close()

    def _prepared(self, session: Session, kept: set[str]) -> list[str]:
        """The names of prepared transactions to roll back."""
        if session.prepared is None:
            return []
        found: list[str] = []
        for gid, _ in session.prepared.begun_with(self._prefix):
            work = parse_work(gid.removeprefix(self._prefix))
            if work is not None and self._is_removable(work, work.term, kept):
                found.append(gid)
        return found

    def _is_removable(self, work: WorkName | None, term: int, kept: set[str]) -> bool:
        # Terms number the owners of one pipeline; they cannot be compared with those of a pipeline that is taken over.
        return (
            work is not None and work.build() not in kept and (term <= self._context.term or self._take_over)
        )

    def _session(self) -> tuple[Session, Bookkeeping]:
        if self._opened is None:
            session = self._connect()
            try:
                books = Bookkeeping(session, self._schema, self._owner)
                if self._creates:
                    books.tables.create()
            except TidegateError:
                session.close()
                raise
            self._opened = session, books
        return self._opened

    def _decoded(self, committable: Committable) -> DatabaseWork:
        try:
            return decode_work(committable.payload)
        except msgspec.MsgspecError as error:
            raise StateFormatError(
                f"sink {self._context.uid!r}: the rows of {committable.describe} cannot be read ({error}); expected version 1; "
                "run the version that wrote it"
            ) from error


def _commit(session: Session, books: Bookkeeping, work: DatabaseWork) -> CommitAnswer:
    if work.gone:
        session.execute(f"DELETE FROM {work.gone} WHERE tg_work = ?", (work.id,))
        return CommitAnswer.COMMITTED
    done = _finish(session, work) if work.gid else _apply(session, books, work)
    name = parse_work(work.name)
    if done:
        if name is not None:
            books.work.prune(name)
        return CommitAnswer.COMMITTED
    if books.work.is_committed(work.id):
        return CommitAnswer.ALREADY_COMMITTED
    forgotten = name is not None and books.work.is_forgotten(name)
    return CommitAnswer.UNKNOWN if forgotten else CommitAnswer.ABORTED


def _finish(session: Session, work: DatabaseWork) -> bool:
    if session.prepared is None:
        raise ConfigError(
            f"{session.shown} cannot prepare transactions, but {work.gid!r} is a prepared transaction; use the database that contains it"
        )
    return session.prepared.finish(work.gid, commit=True)


def _apply(session: Session, books: Bookkeeping, work: DatabaseWork) -> bool:
    """Apply staged rows and delete them from the staging table, unless that was done."""
    with session.transaction():
        # First, so that of two processes that commit the same work one waits here.
        if not books.work.mark_committed(work.id):
            return False
        if work.shape.key:
            apply(session, work.shape, work.stage, work.id, enumerate(work.chunks))
        else:
            session.execute(work.shape.append(work.stage), (work.id,))
        session.execute(f"DELETE FROM {work.stage} WHERE tg_work = ?", (work.id,))
    return True
