"""Committer that calls user code for each piece of work; the failure of one does not stop the others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from tidegate.errors import UnavailableError, UserCodeError
from tidegate.ids import OperatorUid
from tidegate.twophase.spi import Answer, Committable, Committer, Retry

__all__ = ["OneByOneCommitter"]


class OneByOneCommitter(Committer):
    """Commits pieces one after the other; nothing of them is known outside before.

    Args:
        name: What errors call the user's code.
        uid: The operator.
    """

    def __init__(self, name: str, uid: OperatorUid) -> None:
        self._where = f"{name} (uid {uid!r})"

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        """Commit each; an error of the user's code for one is raised after all others are done."""
        answers: list[Answer] = []
        failed: UserCodeError | None = None
        for work in committables:
            try:
                answers.append(self._commit(work))
            except UnavailableError as error:
                answers.append(Retry(str(error) or type(error).__name__))
            except Exception as error:
                failed = UserCodeError(
                    f"{self._where} failed to commit {work.describe} of checkpoint {work.checkpoint}: "
                    f"{type(error).__name__}: {error}"
                )
                failed.__cause__ = error
        if failed is not None:
            raise failed
        return answers

    def abort_except(self, keep: Sequence[Committable]) -> int:
        """Does nothing: uncommitted work is known only from checkpoints."""
        return 0

    @abstractmethod
    def _commit(self, work: Committable) -> Answer: ...
