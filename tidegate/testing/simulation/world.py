"""Simulated world of one seed: messages are lost, repeated and delayed, processes hang, are fenced and killed.

Real are the machines; everything around them is simulated. Each step does one thing chosen by chance, and what an
invariant forbids raises `InternalError` where it happens. The same seed does the same things every time.

Example:
    >>> world = World(seed=3)
    >>> world.run()
    >>> world.ended or world.stopped is not None
    True
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Final

from tidegate.errors import CommitFailedError, CommitUnknownError, FencedError, UnavailableError
from tidegate.ids import CheckpointId, FencingTerm, RunId
from tidegate.testing.simulation.context import SimulationContext
from tidegate.testing.simulation.machines import Machines
from tidegate.testing.simulation.outside import Outside, Storage, require
from tidegate.testing.simulation.owner import LEASE_MS, RECORDS, CrashError, Owner
from tidegate.testing.simulation.tasks import SOURCES, Mode
from tidegate.twophase.fencing import Lease, Refuse, Take

__all__ = ["MODES", "World"]

MODES: Final = {
    "aligned": Mode(aligned_ms=None, overtakable=(), exactly_once=True, apart=False),
    "unaligned": Mode(aligned_ms=0, overtakable=(0, 1), exactly_once=True, apart=False),
    "unaligned, one of two": Mode(aligned_ms=0, overtakable=(0,), exactly_once=True, apart=False),
    "unaligned after a timeout": Mode(aligned_ms=150, overtakable=(0, 1), exactly_once=True, apart=False),
    "at least once": Mode(aligned_ms=None, overtakable=(), exactly_once=False, apart=False),
    "in two parts": Mode(aligned_ms=None, overtakable=(), exactly_once=True, apart=True),
    "in two parts, unaligned": Mode(aligned_ms=0, overtakable=(0, 1), exactly_once=True, apart=True),
}
"""Pipeline configurations; seeds use them in turn."""

_LOOK_MS: Final = 500


class World:
    """One pipeline from its first record to its last checkpoint, through every failure of a seed."""

    def __init__(self, seed: int, machines: Machines | None = None) -> None:
        self.seed = seed
        name = tuple(MODES)[seed % len(MODES)]
        self.trace: list[str] = []
        self.stopped: Exception | None = None
        """Why an operator has to intervene."""
        self._chance = random.Random(seed)
        mode = MODES[name]
        self._around = SimulationContext(
            self._chance,
            machines or Machines(),
            mode,
            Storage(mode.exactly_once),
            Outside(self._chance, exactly_once=mode.exactly_once),
            self._note,
        )
        self._owner: Owner | None = None
        self._former: Owner | None = None
        """An owner that was replaced and does not know it."""
        self._stopped: list[Iterator[None]] = []
        """Starts of owners that were replaced between a check that they are the owner and what they do then."""
        self._runs = 0
        self._note(f"a pipeline: {name}")

    @property
    def ended(self) -> bool:
        """Whether the pipeline has come to its end."""
        return self._owner is not None and self._owner.life.state == "finished"

    def run(self, steps: int = 400) -> None:
        """Misfortune for some steps, then a calm end in which everything must become visible.

        Raises:
            InternalError: an invariant does not hold.
        """
        try:
            self._run(steps)
        except Exception as error:
            error.add_note(f"reproduce this run: tidegate simulate --seed {self.seed}")
            raise

    def _run(self, steps: int) -> None:
        self._start(alive=False)
        for _ in range(steps):
            self._step()
        self._around.faulty = self._around.outside.faulty = False
        self._former = None
        while self._stopped:
            self._wake()
        if not self.ended:
            self._survive(self._crash)
        for _ in range(10 * steps):
            if self.ended or self.stopped:
                break
            self._step()
        require(self.ended or self.stopped is not None, "the run does not end")
        if self.ended:
            everything = {(source, n) for source in range(SOURCES) for n in range(RECORDS)}
            require(set(self._around.outside.visible) == everything, "the output is not complete")

    def _note(self, text: str) -> None:
        owner = self._owner
        self.trace.append(f"term {owner.term:>2} {owner.now:>8} ms  {text}" if owner else f"{'':>19}  {text}")

    # One step

    def _step(self) -> None:
        """One thing happens, chosen by chance among what can happen."""
        if self.ended or self.stopped:
            return
        around = self._around
        if around.strikes(0.003):
            self._survive(self._crash)
        elif around.strikes(0.002):
            self._survive(self._hang)
        elif around.strikes(0.002) and around.outside.prepared:
            self._time_out()
        elif around.strikes(0.05) and self._former is not None:
            self._survive(self._step_of_former)
        elif around.strikes(0.05) and self._stopped:
            self._wake()
        elif around.strikes(0.005):
            self._second_start()
        else:
            self._survive(self._step_of_owner)

    def _step_of_owner(self) -> None:
        owner = self._owner
        assert owner is not None
        if self._around.strikes(0.006):
            owner.fail()
        elif self._around.strikes(0.003):
            owner.hang()
        elif self._chance.random() < 0.01:
            owner.want_savepoint()
        elif self._chance.random() < 0.1 and owner.read and not owner.finishing:
            owner.finish()
        else:
            self._chance.choice(owner.choices())()

    def _step_of_former(self) -> None:
        owner, former = self._owner, self._former
        assert former is not None
        self._owner = former
        try:
            self._chance.choice(former.choices())()
        except (CrashError, UnavailableError, FencedError) as error:
            self._note(f"ends: {error}")
            self._former = None
        finally:
            self._owner = owner

    def _survive(self, act: Callable[[], None]) -> None:
        """Perform an action; a process that dies is replaced."""
        try:
            act()
        except (CrashError, FencedError):
            self._survive(self._crash)
        except UnavailableError as error:
            self._note(f"the attempt fails: {error}")
            self._survive(self._again)
        except (CommitFailedError, CommitUnknownError) as error:
            self._note(f"stopped, an operator is needed: {error}")
            self.stopped = error

    def _time_out(self) -> None:
        works = sorted(self._around.outside.prepared, key=lambda work: work.describe)
        self._around.outside.abort(works if self._chance.random() < 0.7 else works[:1])
        self._note("transactions time out")

    # Owners come and go

    def _crash(self) -> None:
        """The owner is killed, on the machine of the next one or on another."""
        self._note("crash")
        if self._owner is not None:
            with contextlib.suppress(FencedError, UnavailableError, CrashError):
                self._owner.die()
        self._start(alive=False if self._chance.random() < 0.5 else None)

    def _hang(self) -> None:
        """The owner does nothing any more, or comes back in time; who stands by cannot know."""
        self._note("hangs")
        self._start(alive=True)

    def _again(self) -> None:
        """The owner tries again, in the same process."""
        owner = self._owner
        assert owner is not None
        with contextlib.suppress(FencedError, UnavailableError, CrashError):
            owner.drain()
        if not self._around.storage.owned(owner.run) or self._chance.random() < 0.3:
            self._crash()
            return
        first = max(owner.coordinator.next_id, self._around.storage.newest_id + 1)
        self._own(owner.run, owner.term, CheckpointId(first))

    def _start(self, *, alive: bool | None) -> bool:
        """Whether a new process becomes the owner: not if an owner that is `alive` renews its lease."""
        self._runs += 1
        me = Lease("here", "boot", self._runs, 0, FencingTerm(0), RunId(f"run-{self._runs}"))
        take = self._turn(me, alive)
        if take is None:
            self._note("wakes up in time")
            return False
        storage = self._around.storage
        storage.acquire(Lease(me.host, me.boot_id, me.pid, 0, take.term, me.run))
        if alive:
            self._former = self._owner
        self._own(me.run, take.term, CheckpointId(storage.newest_id + 1))
        return True

    def _turn(self, me: Lease, alive: bool | None) -> Take | None:
        """Wait until the pipeline may be owned; None if its owner wakes up before."""
        storage, now_ms, since_ms = self._around.storage, 0, 0
        owner = self._owner
        while True:
            verdict = self._around.machines.judge(
                storage.lease,
                me,
                holder_alive=alive,
                unchanged_ms=now_ms - since_ms,
                lease_ms=LEASE_MS,
                standing_by=True,
            )
            if isinstance(verdict, Take):
                gone = storage.lease is None or alive is False
                require(
                    gone or now_ms - since_ms >= LEASE_MS,
                    f"an owner is replaced after {now_ms - since_ms} ms",
                )
                return verdict
            if alive and self._chance.random() < 0.05:
                return None
            step = self._chance.choice((_LOOK_MS, _LOOK_MS, 2 * LEASE_MS))
            now_ms += step
            if owner is not None:
                owner.now += step
            if alive and self._chance.random() < 0.1:
                storage.renewals += 1
                since_ms = now_ms

    def _own(self, run: RunId, term: int, first: CheckpointId) -> None:
        self._owner = None
        start = self._around.recover(run, term)
        while True:
            try:
                next(start)
            except StopIteration as over:
                newest = over.value
                break
            if self._around.strikes(0.1):
                self._note(f"term {term} is stopped between check and act")
                if self._start(alive=True):
                    self._stopped.append(start)
                    return
        self._owner = Owner(self._around, run, term, newest, first)
        self._note(f"restores {newest.checkpoint if newest else 'nothing'}")

    def _wake(self) -> None:
        """A start that was stopped and replaced continues until its next check."""
        start = self._stopped.pop(self._chance.randrange(len(self._stopped)))
        try:
            # It does what it was about to do. Behind the last check of a start, it learns by its lease.
            require(next(start, "over") == "over", "a start that was replaced passes a check")
        except FencedError as error:
            self._note(f"wakes up too late: {error}")

    def _second_start(self) -> None:
        """A start that is not a standby is refused, however long the owner has been silent."""
        me = Lease("here", "boot", 0, 0, FencingTerm(0), RunId("second"))
        lease, unchanged_ms = self._around.storage.lease, self._chance.choice((0, LEASE_MS, 100 * LEASE_MS))
        verdict = self._around.machines.judge(
            lease, me, holder_alive=True, unchanged_ms=unchanged_ms, lease_ms=LEASE_MS
        )
        require(isinstance(verdict, Refuse), f"a second start got {verdict} while the owner runs")
