"""Initial state of each simulated owner: it settles what was decided, then starts."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from tidegate.ids import CheckpointId, RunId
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.testing.simulation.machines import Machines
from tidegate.testing.simulation.outside import Outside, Storage, check_owner, require
from tidegate.testing.simulation.tasks import Mode
from tidegate.twophase import ledger
from tidegate.twophase.spi import Committable

__all__ = ["SimulationContext"]


@dataclass
class SimulationContext:
    """Chance, the machines, and what survives a crash."""

    chance: random.Random
    machines: Machines
    mode: Mode
    storage: Storage
    outside: Outside
    note: Callable[[str], None]
    faulty: bool = True
    used: set[CheckpointId] = field(default_factory=set)
    """The numbers that owners have given to checkpoints."""

    def strikes(self, share: float) -> bool:
        """Whether a failure is injected now."""
        return self.faulty and self.chance.random() < share

    def recover(self, run: RunId, term: int) -> Generator[None, None, Manifest | None]:
        """Where to continue: at the newest decided checkpoint, or before it if nothing of it will ever be visible.

        The run may be stopped at each `yield`, which lies between a check that it is the owner and what it then does.

        Raises:
            FencedError: the pipeline has a newer owner.
        """
        newest = yield from self._settled(run)
        yield from self.machines.fencing(self.outside, self.storage, run, term)
        return newest

    def mark_settled(self, number: CheckpointId) -> None:
        """Write down that all output of a checkpoint is visible."""
        storage = self.storage
        kept = next((each for each in storage.retained if each[1] == number), None)
        if kept is None:
            return
        missing = storage.content(storage.load(kept)) - self.outside.visible.keys()
        require(not missing, f"checkpoint {number} is settled but {sorted(missing)} are not visible")
        storage.settled.add(kept)

    def check_order(self, number: CheckpointId) -> None:
        """Commits come in the order of decisions."""
        newest = self.storage.newest_settled() or (0, CheckpointId(0))
        between = [kept for kept in self.storage.retained if newest[1] < kept[1] < number]
        waiting = {work for kept in between for work in self.storage.load(kept).unsettled[-1].committables}
        require(waiting <= self.outside.done, f"{number} is committed before an earlier decided checkpoint")

    def _settled(self, run: RunId) -> Generator[None, None, Manifest | None]:
        storage = self.storage
        if not storage.retained:
            return None
        newest, settled = storage.load(storage.retained[-1]), storage.newest_settled()
        book = self.machines.ledger(settled[1] if settled else ledger.NOTHING_SETTLED)
        todo: deque[ledger.Action] = deque()
        for each in newest.unsettled:
            if settled is None or each.checkpoint > settled[1]:
                todo.extend(book.on(ledger.Decided(each.checkpoint, each.committables)))
        while todo:
            match action := todo.popleft():
                case ledger.Commit():
                    check_owner(storage, run)
                    self.check_order(action.checkpoint)
                    yield
                    todo.extend(book.on(self._answered(action.checkpoint, action.committables)))
                case ledger.Settle():
                    self.mark_settled(action.checkpoint)
                case ledger.Replay():
                    self.note(f"checkpoint {action.checkpoint} was aborted")
                    check_owner(storage, run)
                    keep = 0 if settled is None else storage.retained.index(settled) + 1
                    self._forget(storage.retained[keep:])
                    return storage.load(settled) if settled else None
                case ledger.Fail():
                    raise action.error
        return newest

    def _answered(self, number: CheckpointId, work: tuple[Committable, ...]) -> ledger.Answered:
        return ledger.Answered(
            number, tuple((each, self.outside.commit(each, self.storage)) for each in work)
        )

    def _forget(self, aborted: list[tuple[int, CheckpointId]]) -> None:
        self.storage.retained = [kept for kept in self.storage.retained if kept not in aborted]
