"""Process functions that are `async def`: many keys at once, the records of one key in their order, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.test_savepoints import FORMS, faults, held, lines
from tests.waiting import until
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    AggregateFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    state,
)
from tidegate.errors import ConfigError, TidegateError
from tidegate.runtime.client import JobClient
from tidegate.runtime.options import SavepointFormat
from tidegate.runtime.stream.watermarks import WatermarkGenerator

BACKENDS = pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])


class Totals(KeyedProcessFunction):
    """Adds up in steps between which others have their turn; the first records of a key take longest."""

    total = state.Value(int, default=0)

    async def process_element(self, value: tuple[str, int], ctx: Any) -> AsyncIterator[tuple[str, int, int]]:
        before = await self.total.async_value()
        await asyncio.sleep(0.02 if value[1] == 0 else 0)
        await self.total.async_update(before + value[1])
        assert await self.total.async_value() == before + value[1]
        yield ctx.get_current_key(), value[1], before + value[1]


@BACKENDS
def test_each_record_of_a_key_sees_what_the_one_before_left(
    anywhere: StreamExecutionEnvironment, backend: str
) -> None:
    anywhere.configure({"state.backend.type": backend, "state.cache.entries": 2})
    events = [(f"key-{number % 7}", number // 7) for number in range(210)]
    given = anywhere.from_collection(events).set_parallelism(1)
    found = list(given.key_by(lambda event: event[0]).process(Totals()).execute_and_collect())

    sums = [sum(range(step + 1)) for step in range(30)]
    for key in range(7):
        of_key = [(step, total) for name, step, total in found if name == f"key-{key}"]
        assert of_key == list(enumerate(sums))


class Meeting(KeyedProcessFunction):
    """Nobody leaves before there are three of them."""

    def open(self, runtime_context: Any) -> None:
        self.there = 0
        self.all_there: asyncio.Event | None = None
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

    async def process_element(self, value: str, ctx: Any) -> list[str]:
        self.all_there = self.all_there or asyncio.Event()
        self.there += 1
        if self.there == 3:
            self.all_there.set()
        await self.all_there.wait()
        await self.count.async_update(await self.count.async_value() + 1)
        return [f"{ctx.get_current_key()} {await self.count.async_value()}"]


def test_records_of_different_keys_are_under_way_at_once(anywhere: StreamExecutionEnvironment) -> None:
    met = anywhere.from_collection(["a", "b", "c", "a"]).key_by(lambda name: name).process(Meeting())
    assert sorted(met.set_parallelism(1).execute_and_collect()) == ["a 1", "a 2", "b 1", "c 1"]


class Mean(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[int]) -> float:
        return sum(accumulator) / len(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


class EveryKind(KeyedProcessFunction):
    """Uses every method of every kind, those that expire among them."""

    value = state.Value(default={})
    items = state.List(int, ttl=Time.days(1))
    names = state.Map(str, list[int], ttl=Time.days(1))
    most = state.Reducing(max, int)
    mean = state.Aggregating(Mean())

    async def process_element(self, value: int, ctx: Any) -> list[Any]:
        items, names = self.items, self.names
        (await self.value.async_value())["changed"] = "a copy"
        assert await self.value.async_value() == {}
        await asyncio.gather(items.async_add(value), self.most.async_add(value), self.mean.async_add(value))
        await items.async_add_all([value, value])
        await names.async_put("one", [value])
        await names.async_put_all({"two": [2], "gone": []})
        await names.async_remove("gone")
        answer: list[Any] = [
            await items.async_get(),
            await names.async_get("one"),
            sorted(await names.async_keys()),
            sorted(await names.async_values()),
            sorted(await names.async_items()),
            [await names.async_contains(name) for name in ("one", "gone")],
            [await self.most.async_get(), await self.mean.async_get()],
        ]
        await items.async_update([1])
        answer.append(await items.async_get())
        for each in (self.value, items, names, self.most, self.mean):
            await each.async_clear()
        answer += [await names.async_is_empty(), await self.most.async_get(), await self.mean.async_get()]
        return [answer]


@BACKENDS
def test_every_kind_of_state_is_asked_by_its_own_names(
    anywhere: StreamExecutionEnvironment, backend: str
) -> None:
    anywhere.configure({"state.backend.type": backend})
    (found,) = anywhere.from_collection([7]).key_by(lambda _: "k").process(EveryKind()).execute_and_collect()
    lists = [
        [7, 7, 7],
        [7],
        ["one", "two"],
        [[2], [7]],
        [("one", [7]), ("two", [2])],
        [True, False],
        [7, 7.0],
    ]
    assert found == [*lists, [1], True, None, None]


LATE = OutputTag("timers", Types.STRING())


class EveryRecord(WatermarkGenerator):
    """Time is where the newest record is, right behind it."""

    asked = "record"
    newest: int | None = None

    def on_event(self, value: Any, timestamp: int) -> None:
        self.newest = timestamp

    def watermark(self) -> int | None:
        return self.newest


class Reminds(KeyedProcessFunction):
    """Registers a timer a step later and one that is due at once; tells the time in all of them."""

    seen = state.List(int)

    async def process_element(self, value: tuple[str, int], ctx: Any) -> None:
        await asyncio.sleep(0.01)
        await self.seen.async_add(value[1])
        timers = ctx.timer_service()
        assert timers.current_watermark() < ctx.timestamp()
        timers.register_event_time_timer(value[1] + 5)
        timers.register_event_time_timer(value[1] + 6)
        timers.delete_event_time_timer(value[1] + 6)

    async def on_timer(self, timestamp: int, ctx: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        yield ctx.get_current_key(), timestamp, await self.seen.async_get()
        yield LATE, f"{ctx.time_domain().name} {ctx.timestamp()}"
        if timestamp == 15:
            ctx.timer_service().register_event_time_timer(16)


class Seen(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield *value, ctx.timestamp(), ctx.timer_service().current_watermark() < value[1]


def test_timers_come_behind_the_records_before_their_watermark(anywhere: StreamExecutionEnvironment) -> None:
    by_time = WatermarkStrategy.for_generator(EveryRecord).with_timestamp_assigner(lambda event, _: event[1])
    events = anywhere.from_collection([("a", 1), ("b", 2), ("a", 10), ("a", 30), ("b", 31)]).set_parallelism(
        1
    )
    timed = events.assign_timestamps_and_watermarks(by_time).set_parallelism(1)
    reminded = timed.key_by(lambda event: event[0]).process(Reminds())
    reminded.get_side_output(LATE).print()
    found = reminded.process(Seen()).execute_and_collect()

    assert sorted(found) == [
        ("a", 6, [1, 10], 6, True),
        ("a", 15, [1, 10, 30], 15, True),
        ("a", 16, [1, 10, 30], 16, True),
        ("a", 35, [1, 10, 30], 35, True),
        ("b", 7, [2], 7, True),
        ("b", 36, [2, 31], 36, True),
    ]


class Soon(KeyedProcessFunction):
    """Waits for the clock."""

    async def process_element(self, value: str, ctx: Any) -> None:
        now = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(now + 20)
        ctx.timer_service().register_processing_time_timer(2**50)
        ctx.timer_service().delete_processing_time_timer(2**50)

    async def on_timer(self, timestamp: int, ctx: Any) -> list[str]:
        assert ctx.timer_service().current_processing_time() >= timestamp
        return [f"{ctx.get_current_key()} {ctx.time_domain().name}"]


def test_timers_of_the_clock_are_awaited_too(anywhere: StreamExecutionEnvironment) -> None:
    numbers = anywhere.from_source(GeneratorSource(int, count=300, rate_per_second=1_000.0))
    told = set(numbers.key_by(lambda number: number % 3).process(Soon()).execute_and_collect())
    assert told == {f"{key} PROCESSING_TIME" for key in range(3)}


class Both(KeyedCoProcessFunction):
    """One count of both sides."""

    count = state.Value(int, default=0)

    async def process_element1(self, value: int, ctx: Any) -> list[int]:
        await self.count.async_update(await self.count.async_value() + value)
        return []

    async def process_element2(self, value: int, ctx: Any) -> list[int]:
        await self.count.async_update(await self.count.async_value() + value)
        ctx.timer_service().register_event_time_timer(2**40)
        return []

    async def on_timer(self, timestamp: int, ctx: Any) -> list[int]:
        return [await self.count.async_value()]


def test_both_sides_share_the_state_of_a_key(anywhere: StreamExecutionEnvironment) -> None:
    ones = anywhere.from_collection([1, 2, 3]).key_by(lambda _: 0)
    others = anywhere.from_collection([10, 20]).key_by(lambda _: 0)
    assert list(ones.connect(others).process(Both()).execute_and_collect()) == [36]


class Counts(KeyedProcessFunction):
    """Counts the records of a key, with a wait between reading and writing."""

    count = state.Value(int, default=0)

    async def process_element(self, value: int, ctx: Any) -> AsyncIterator[str]:
        before = await self.count.async_value()
        await asyncio.sleep(0.001 * (value % 3))
        await self.count.async_update(before + 1)
        await asyncio.sleep(0.001 * (value % 2))
        yield f"{value} {before + 1}"


def started(settings: dict[str, Any], root: Path, output: Path, **more: Any) -> JobClient:
    env = StreamExecutionEnvironment.get_execution_environment(
        {**settings, "state.checkpoints.dir": str(root), **more}
    )
    numbers = GeneratorSource(int, count=None, splits=2, rate_per_second=500)
    counts = env.from_source(numbers).uid("numbers").key_by(lambda number: number % 7).process(Counts())
    counts.uid("totals").sink_to(FileSink(str(output))).uid("files")
    return env.execute_async("totals")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("target", "parallelism", "backend"),
    [
        ("inline", 2, "heap"),
        ("inline", 2, "rocksdb"),
        ("embedded", 2, "filesystem"),
        ("embedded", 2, "rocksdb"),
        ("embedded", 3, "heap"),
    ],
)
def test_a_snapshot_holds_all_that_a_record_does_or_nothing(
    tmp_path: Path, target: str, parallelism: int, backend: str, form: SavepointFormat
) -> None:
    settings = {
        "execution.target": target,
        "parallelism.default": parallelism,
        "pipeline.progress": "off",
        "execution.checkpointing.interval": "20 ms",
        "restart-strategy.fixed-delay.attempts": 0,
        "state.backend.type": backend,
    }
    output = tmp_path / "out"
    client = started(settings, tmp_path / "one", output)
    until(lambda: len(lines(output)) > 50, job=client)
    place = client.stop_with_savepoint(False, str(tmp_path / "saved"), format_type=form).result(timeout=60)

    before = len(lines(output))
    assert sum(held(place).values()) == before
    more = {
        "execution.savepoint.path": place,
        "parallelism.default": parallelism + 1,
        # The output belongs to a pipeline with its checkpoints elsewhere.
        "execution.take-over": True,
    }
    client = started(settings, tmp_path / "two", output, **more)
    until(lambda: len(lines(output)) > before + 50, job=client)
    client.stop().result(timeout=60)
    assert faults(lines(output)) == []


class Misused(KeyedProcessFunction):
    """Does what is not to be done."""

    count = state.Value(int, default=0)

    def __init__(self, how: str) -> None:
        self.how = how

    async def process_element(self, value: int, ctx: Any) -> list[int]:
        if self.how == "fail":
            raise ValueError("trouble")
        if self.how == "type":
            await self.count.async_update("text")  # type: ignore[arg-type] # that is the point
        if self.how == "ordinary":
            self.count.update(1)
        if value == 1:
            self.left = asyncio.ensure_future(self._later())
        else:
            await self.left
        return [value]

    async def _later(self) -> None:
        await asyncio.sleep(0.05)
        await self.count.async_value()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("fail", r"failed on record 1: ValueError: trouble"),
        ("type", r"failed on record 1: RecordError: .*got str 'text'; expected long"),
        (
            "ordinary",
            r"state 'count' .*`async def` function; got update\(...\); expected await async_update\(...\)",
        ),
        (
            "left",
            "of key 0 is used by a task that outlived the processing of its record; expected every task to end before",
        ),
    ],
)
def test_what_goes_wrong_fails_the_job_with_the_record(
    anywhere: StreamExecutionEnvironment, how: str, message: str
) -> None:
    numbers = anywhere.from_collection([1, 2]).set_parallelism(1).key_by(lambda _: 0)
    numbers.process(Misused(how)).print()
    with pytest.raises(TidegateError, match=message):
        anywhere.execute("misused")


class Half(KeyedProcessFunction):
    async def process_element(self, value: int, ctx: Any) -> list[int]:
        return [value]

    def on_timer(self, timestamp: int, ctx: Any) -> None: ...


class Keyless(ProcessFunction):
    async def process_element(self, value: int, ctx: Any) -> list[int]:  # type: ignore[override] # that is the point
        return [value]


class Ordinary(KeyedProcessFunction):
    count = state.Value(int, default=0)

    def process_element(self, value: int, ctx: Any) -> None:
        self.count.async_value().send(None)


@pytest.mark.parametrize(
    ("function", "settings", "message"),
    [
        (Half(), {}, "Half mixes ordinary and `async def` methods; got ordinary on_timer; expected one kind"),
        (Keyless(), {}, r"is `async def`; got an input without keys; expected one behind key_by\(...\)"),
        (Counts(), {"execution.runtime-mode": "BATCH"}, "is `async def`; got a batch job"),
        (Counts(), {"state.log.granularity": "event"}, "is `async def`; got state.log.granularity event"),
        (Ordinary(), {}, r"async_value\(...\) was called outside an `async def` function"),
    ],
    ids=["half", "without keys", "batch", "journal", "ordinary"],
)
def test_what_cannot_be_awaited_is_refused(function: Any, settings: dict[str, Any], message: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 1, **settings}
    )
    numbers = env.from_collection([1])
    stream = numbers if isinstance(function, Keyless) else numbers.key_by(lambda _: 0)
    stream.process(function).print()
    with pytest.raises(ConfigError, match=message):
        env.execute("refused")


def test_a_journal_of_others_does_not_keep_a_function_from_awaiting() -> None:
    settings = {"state.log.granularity": "event", "state.log.operators": "counted"}
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", **settings}
    )
    keyed = env.from_collection([("a", 1), ("a", 2)]).set_parallelism(1).key_by(lambda event: event[0])
    keyed.sum(1).uid("counted").print()
    assert list(keyed.process(Totals()).execute_and_collect()) == [("a", 1, 1), ("a", 2, 3)]
