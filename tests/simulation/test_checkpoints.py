"""Checkpoints under every misfortune a seed holds; a failing seed fails again under its number."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec
import pytest

from tests.conftest import Profile
from tests.simulation.outside import InvariantError, in_flight
from tests.simulation.tasks import Report, SinkTask
from tests.simulation.world import World
from tidegate.elements import Barrier
from tidegate.errors import InternalError
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.checkpoint import coordinator as cp
from tidegate.runtime.checkpoint.retention import FileRegistry, Release
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.task.alignment import Announced

SEEDS, MORE_SEEDS = 300, 5_000


def simulate(seed: int) -> World:
    world = World(seed)
    try:
        world.run()
    except Exception as error:
        error.add_note("\n".join([f"seed {seed}:", *world.trace[-60:]]))
        raise
    return world


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_seed_keeps_every_invariant(seed: int) -> None:
    world = simulate(seed)

    assert world.ended or world.stopped is not None


def test_many_more_seeds_keep_every_invariant(profile: Profile) -> None:
    for seed in range(SEEDS, MORE_SEEDS if profile == "long" else SEEDS + 20):
        simulate(seed)


def test_seeds_reach_what_they_are_made_for() -> None:
    traces = ["\n".join(simulate(seed).trace) for seed in range(60)]

    def reached(text: str) -> int:
        return sum(text in trace for trace in traces)

    wanted = [
        "crash",
        "Abort(checkpoint=",
        "not acknowledged within 1000 ms",
        "no space left",
        "the storage did not answer",
        "Settled(checkpoint=",
        "Ended(how='finish'",
        "transactions time out",
        "was aborted",
        "is fenced",
        "WriteSavepoint(checkpoint=",
        "SavepointFailed(place=",
        "Announce(checkpoint=",
        "has overtaken records",
    ]
    assert {text: reached(text) for text in wanted if not reached(text)} == {}


def test_a_seed_runs_the_same_way_every_time() -> None:
    assert simulate(7).trace == simulate(7).trace


class CommitsBeforeDeciding(cp.CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        early: list[cp.Action] = [
            cp.CommitWork(action.checkpoint, each.committables)
            for action in actions
            if isinstance(action, cp.WriteMetadata)
            for each in action.unsettled[-1:]
        ]
        return actions + early


class ForgetsAnAck(cp.CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        if isinstance(event, cp.Ack) and self._pending is not None and len(self._pending.missing) > 2:
            self._pending.missing.discard(Subtask("count", 1))
        return super().on(event)


class ReusesANumber(cp.CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        if isinstance(event, cp.Swapped):
            self.next_id = event.checkpoint
        return actions


class ReusesTheNumberOfAnAbortedOne(cp.CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        for action in actions:
            if isinstance(action, cp.Abort):
                self.next_id = action.checkpoint
        return actions


class TriggersTwoAtOnce(cp.CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        if isinstance(event, cp.Tick) and event.now_ms % 3 == 0:
            self._pending = None
        return super().on(event)


class SettlesWithoutAnswers(cp.CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        return [
            cp.WriteSettled(action.checkpoint) if isinstance(action, cp.CommitWork) else action
            for action in actions
        ]


class IgnoresWhoElseRefers(FileRegistry):
    def settled(self, checkpoint: CheckpointId) -> Release:
        files = dict(self._files)
        release = super().settled(checkpoint)
        return Release(release.checkpoints, release.files.union(*(files[old] for old in release.checkpoints)))


class ForgetsWhoReads(FileRegistry):
    def pin(self, checkpoint: CheckpointId) -> None:
        pass


class DropsWhatIsNewer(FileRegistry):
    def settled(self, checkpoint: CheckpointId) -> Release:
        super().settled(checkpoint)
        newer: Iterable[CheckpointId] = [known for known in self._files if known >= checkpoint]
        return Release(tuple(newer), frozenset())


class DropsWhatItHasOvertaken(SinkTask):
    def _recorded(self) -> OperatorReport:
        return msgspec.structs.replace(super()._recorded(), in_flight=None)


class OvertakesWhatItHasOvertaken(SinkTask):
    def announce(self, barrier: Barrier, *, compact: bool) -> list[Report]:
        return self._act(self.alignment.on(Announced(barrier.checkpoint)), barrier, compact)


class WorksOffNewRecordsFirst(SinkTask):
    @property
    def ready(self) -> list[int]:
        return [n for n, channel in enumerate(self.channels) if channel] or [0] * bool(self.replay)

    def take(self, channel: int, *, compact: bool) -> list[Report]:
        waiting, self.replay = self.replay, deque() if self.channels[channel] else self.replay
        try:
            return super().take(channel, compact=compact)
        finally:
            self.replay = waiting


class WorksOffWhatOthersHaveToo(SinkTask):
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restored[0] is not None:
            manifest = self.storage.load(self.storage.retained[-1])
            self.replay = deque(in_flight(manifest))


class AnnouncesSavepoints(cp.CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        if self._plan.aligned_ms == 0:
            extra = [
                cp.Announce(each.checkpoint, each.confirmed)
                for each in actions
                if isinstance(each, cp.TriggerSources)
            ]
            actions += [each for each in extra if each not in actions]
        return actions


@pytest.mark.parametrize(
    "broken",
    [
        DropsWhatItHasOvertaken,
        OvertakesWhatItHasOvertaken,
        WorksOffNewRecordsFirst,
        WorksOffWhatOthersHaveToo,
        AnnouncesSavepoints,
        CommitsBeforeDeciding,
        ForgetsAnAck,
        ReusesANumber,
        ReusesTheNumberOfAnAbortedOne,
        TriggersTwoAtOnce,
        SettlesWithoutAnswers,
        IgnoresWhoElseRefers,
        DropsWhatIsNewer,
        ForgetsWhoReads,
    ],
    ids=lambda broken: broken.__name__,
)
def test_a_broken_part_is_caught(broken: type) -> None:
    part = next(name for name, kind in PARTS.items() if issubclass(broken, kind))
    parts = {part: broken}

    with pytest.raises((InvariantError, InternalError)):
        _run_seeds(parts)


PARTS = {"registry": FileRegistry, "sink": SinkTask, "coordinator": cp.CheckpointCoordinator}


def _run_seeds(parts: dict[str, type]) -> None:
    for seed in range(40):
        World(seed, **parts).run()
