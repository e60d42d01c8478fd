"""Programs with barriers and with iterations, in orders of steps and deliveries that a seed determines."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.conftest import Profile
from tests.simulation.random_schedule import run_in_order_of
from tidegate.datastream import (
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.elements import Batch, Element
from tidegate.errors import ConfigError
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.task.alignment import Action, Alignment, Block, Event
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.in_flight import Backlog
from tidegate.runtime.task.iteration import IterationTask

Env = StreamExecutionEnvironment
KEYS, RECORDS = 5, 3_000
NUMBERS = 600
SEEDS, MORE_SEEDS = 8, 400


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


class FailsOnce(MapFunction):
    """Fails once, late in the input."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def map(self, value: int) -> int:
        if value == RECORDS - 100 and not self._marker.exists():
            self._marker.touch()
            raise ValueError("this once")
        return value


class Number(KeyedProcessFunction):
    """Numbers the records of a key."""

    def open(self, runtime_context: Any) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", default=0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        self._seen.update(self._seen.value() + 1)
        yield ctx.get_current_key(), self._seen.value()


def environment(settings: dict[str, Any]) -> Env:
    return Env.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 3, **settings}
    )


ALIGNED: dict[str, Any] = {}
OVERTAKING = {"execution.checkpointing.unaligned.enabled": True}
AFTER_A_WHILE = {**OVERTAKING, "execution.checkpointing.aligned-checkpoint-timeout": "3 ms"}


def numbered(marker: Path, mode: dict[str, Any] = ALIGNED) -> Counter[tuple[int, int]]:
    """The output of a job that fails once, after two exchanges and a union."""
    env = environment(
        {"execution.checkpointing.interval": "2 ms", "restart-strategy.fixed-delay.delay": "1 ms", **mode}
    )
    halves = [env.from_collection(range(first, RECORDS, 2)).rebalance() for first in (0, 1)]
    moved = halves[0].union(halves[1]).map(FailsOnce(marker))
    return Counter(moved.key_by(lambda number: number % KEYS).process(Number()).execute_and_collect())


def cycled(wait_ms: int) -> Counter[int]:
    """The output of an iteration in which each number becomes eight, over two exchanges per round."""
    env = environment({"restart-strategy.fixed-delay.attempts": 0})
    numbers = env.from_collection(range(NUMBERS)).map(lambda number: (0, number))
    with warnings.catch_warnings(action="ignore"):
        iteration = numbers.iterate(wait_ms)
    rounds = iteration.rebalance().flat_map(lambda pair: [(pair[0] + 1, pair[1])] * 2)
    body = rounds.key_by(lambda pair: pair[1] % KEYS).map(lambda pair: pair)
    iteration.close_with(body.filter(lambda pair: pair[0] < 3))
    ended = body.filter(lambda pair: pair[0] == 3).map(lambda pair: pair[1])
    return Counter(ended.execute_and_collect())


EVERY_NUMBER = Counter((key, number + 1) for key in range(KEYS) for number in range(RECORDS // KEYS))
EIGHT_TIMES = dict.fromkeys(range(NUMBERS), 8)


@pytest.mark.parametrize(
    ("mode", "seed"),
    [
        pytest.param(mode, seed, id=f"{name}-{seed}")
        for name, mode, seeds in (
            ("aligned", ALIGNED, SEEDS),
            ("overtaking", OVERTAKING, 4),
            ("later", AFTER_A_WHILE, 4),
        )
        for seed in range(seeds)
    ],
)
def test_barriers_separate_the_records_before_them_from_those_after(
    seed: int, mode: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_order_of(seed, monkeypatch)

    assert numbered(tmp_path / "failed", mode) == EVERY_NUMBER
    assert (tmp_path / "failed").exists()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_iteration_ends_when_all_its_records_are_processed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_order_of(seed, monkeypatch)

    assert cycled(wait_ms=200) == EIGHT_TIMES


@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_iteration_with_too_short_a_wait_time_fails_or_is_complete(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_order_of(seed, monkeypatch)
    found, failure = None, ""
    try:
        found = cycled(wait_ms=1)
    except ConfigError as error:
        failure = str(error)

    assert found == EIGHT_TIMES or "none had arrived for 1 ms" in failure


def test_many_more_seeds_keep_the_order(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(SEEDS, MORE_SEEDS if profile == "long" else SEEDS + 2):
        run_in_order_of(seed, monkeypatch)
        mode = (ALIGNED, OVERTAKING, AFTER_A_WHILE)[seed % 3]
        assert numbered(tmp_path / f"failed-{seed}", mode) == EVERY_NUMBER, seed
        assert cycled(wait_ms=200) == EIGHT_TIMES, seed


class NeverBlocksChannels(Alignment):
    def on(self, event: Event) -> list[Action]:
        return [action for action in super().on(event) if not isinstance(action, Block)]


class DropsLateFeedback(IterationTask):
    def deliver(self, channel: ChannelId, element: Element) -> None:
        if self._over and isinstance(element, Batch):
            self._grant(channel, len(element), self._window)
        else:
            super().deliver(channel, element)


def first_seed(finds: Callable[[int], bool], monkeypatch: pytest.MonkeyPatch) -> int | None:
    """The first seed for which `finds` returns true."""
    for seed in range(200):
        run_in_order_of(seed, monkeypatch)
        if finds(seed):
            return seed
    return None


def test_an_alignment_that_blocks_no_channel_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.runtime.task.downstream.Alignment", NeverBlocksChannels)

    def repeats(seed: int) -> bool:
        return numbered(tmp_path / f"failed-{seed}") != EVERY_NUMBER

    assert first_seed(repeats, monkeypatch) is not None


def first_wrong(mode: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int | None:
    def differs(seed: int) -> bool:
        return numbered(tmp_path / f"failed-{seed}", mode) != EVERY_NUMBER

    return first_seed(differs, monkeypatch)


def test_lost_in_flight_records_are_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.runtime.task.downstream.Recording.encoded", lambda recording: {})

    assert first_wrong(OVERTAKING, tmp_path, monkeypatch) is not None


def test_in_flight_records_restored_by_every_subtask_are_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TakenByAll(Backlog):
        def __init__(self, vertex: Any, env: ChainEnvironment) -> None:
            super().__init__(vertex, env)
            if not vertex.keyed:
                others = [dataclasses.replace(env, subtask=subtask) for subtask in vertex.subtasks]
                self._found = chain.from_iterable(Backlog(vertex, other)._found for other in others)

    monkeypatch.setattr("tidegate.runtime.task.runner.Backlog", TakenByAll)

    assert first_wrong(OVERTAKING, tmp_path, monkeypatch) is not None


def test_in_flight_records_that_are_not_restored_are_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backlog, "__bool__", lambda backlog: False)

    assert first_wrong(OVERTAKING, tmp_path, monkeypatch) is not None


def test_an_iteration_head_that_drops_late_feedback_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.runtime.embedded.worker.IterationTask", DropsLateFeedback)

    def loses(seed: int) -> bool:
        return cycled(wait_ms=1) != EIGHT_TIMES

    assert first_seed(loses, monkeypatch) is not None
