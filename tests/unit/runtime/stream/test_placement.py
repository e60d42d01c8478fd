"""Which subtasks a program has, which of them are one task, and in which slot, process and thread each runs."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tidegate.datastream import (
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    SinkFunction,
    StreamExecutionEnvironment,
    WindowFunction,
    state,
)
from tidegate.errors import ConfigError
from tidegate.runtime.explain import Explained, explained
from tidegate.runtime.graph.execution_graph import ExecutionGraph

Env = StreamExecutionEnvironment
Groups: TypeAlias = tuple[str, str, str] | None
"""The slot sharing group of each of three tasks; None lets all share."""

WORDS = ["to be or not to be"] * 10
COUNTS = {"to": 20, "be": 20, "or": 10, "not": 10}
APART: Groups = ("a", "b", "c")


class Present:
    """A function that writes down where it is opened: step, subtask, process, thread."""

    def __init__(self, book: Path, step: str) -> None:
        self.book = book
        self.step = step

    def open(self, runtime_context: Any) -> None:
        place = (self.step, runtime_context.get_index_of_this_subtask(), os.getpid(), threading.get_ident())
        with self.book.open("a") as book:
            book.write(" ".join(map(str, place)) + "\n")


class Map(Present, MapFunction):
    def map(self, value: Any) -> Any:
        return value


class Split(Present, FlatMapFunction):
    def flat_map(self, value: str) -> list[str]:
        return value.split()


class Count(Present, KeyedProcessFunction):
    seen = state.Value(int, default=0)

    def process_element(self, value: str, ctx: Any) -> Iterator[tuple[str, int]]:
        self.seen.update(self.seen.value() + 1)
        yield value, self.seen.value()


class Size(Present, WindowFunction):
    def apply(self, key: str, window: Any, inputs: Iterable[str]) -> Iterator[tuple[str, int]]:
        yield key, len(list(inputs))


class Out(Present, SinkFunction):
    def invoke(self, value: Any, context: Any) -> None:
        with self.book.with_suffix(".out").open("a") as out:
            out.write(f"{value[0]} {value[1]}\n")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "book"


def places(book: Path, times: int = 1) -> dict[tuple[str, int], tuple[int, int]]:
    """Process and thread of each (step, subtask), which was opened so many times, in their order; the book begins anew."""
    lines = [line.split() for line in book.read_text().splitlines()]
    book.unlink()
    assert set(Counter((step, index) for step, index, *_ in lines).values()) == {times}
    return {(step, int(index)): (int(process), int(thread)) for step, index, process, thread in lines}


def written(book: Path) -> Counter[tuple[str, int]]:
    lines = book.with_suffix(".out").read_text().splitlines()
    return Counter((word, int(number)) for word, number in map(str.split, lines))


def machines(task_managers: int, slots: int) -> Env:
    """An environment with this many processes and slots in each."""
    return Env.get_execution_environment(
        {
            "execution.target": "embedded",
            "pipeline.progress": "off",
            "minicluster.number-of-taskmanagers": task_managers,
            "taskmanager.numberOfTaskSlots": slots,
        }
    )


def resolved(env: Env) -> Explained:
    return explained(env._launch(tuple(env._sinks), None))


def by_process(found: dict[tuple[str, int], tuple[int, int]]) -> list[list[tuple[str, int]]]:
    held: dict[int, list[tuple[str, int]]] = {}
    for subtask, (process, _) in found.items():
        held.setdefault(process, []).append(subtask)
    return sorted(map(sorted, held.values()))


def in_groups(groups: Groups, *tasks: tuple[DataStream, ...]) -> None:
    """Put all steps of each task into the task's group."""
    for task, group in zip(tasks, groups or (), strict=False):
        for step in task:
            step.slot_sharing_group(group)


def word_count(env: Env, book: Path, groups: Groups = None) -> None:
    """Three tasks: the source at parallelism 1, flat map, and count with the sink."""
    source = env.from_parallel_collection(WORDS).set_parallelism(1)
    lines = source.map(Map(book, "source")).set_parallelism(1)
    words = lines.flat_map(Split(book, "words"))
    counts = words.key_by(lambda word: word).process(Count(book, "count"))
    in_groups(groups, (source, lines), (words,), (counts,))
    counts.add_sink(Out(book, "sink"))


def windows(env: Env, book: Path, groups: Groups = None) -> DataStream:
    """Three tasks: source with map, keyed windows, and a sink of one subtask; returns the map."""
    source = env.from_parallel_collection([word for line in WORDS for word in line.split()])
    mapped = source.map(Map(book, "map"))
    sizes = mapped.key_by(lambda word: word).count_window(10).apply(Size(book, "window"))
    in_groups(groups, (source, mapped), (sizes,))
    sink = sizes.add_sink(Out(book, "sink")).set_parallelism(1)
    if groups is not None:
        sink.slot_sharing_group(groups[2])
    return mapped


RUNNING = Counter({(word, n): 1 for word, count in COUNTS.items() for n in range(1, count + 1)})
TENS = Counter({(word, 10): count // 10 for word, count in COUNTS.items()})


@pytest.mark.spec("000/EX-04")
def test_word_count_at_two_is_five_tasks_of_which_only_count_and_sink_are_chained(
    anywhere: Env, book: Path
) -> None:
    word_count(anywhere.set_parallelism(2), book)
    chains = [(vertex.name, vertex.parallelism) for vertex in resolved(anywhere).job.vertices.values()]

    anywhere.execute()

    assert chains == [
        ("Source: Collection Source -> Map", 1),
        ("Flat Map", 2),
        ("Process -> Sink: FunctionSink", 2),
    ]
    found = places(book)
    tasks = [subtask for subtask in found if subtask[0] != "sink"]
    assert sorted(tasks) == [("count", 0), ("count", 1), ("source", 0), ("words", 0), ("words", 1)]
    assert all(found["sink", index] == found["count", index] for index in range(2))
    assert written(book) == RUNNING


@pytest.mark.spec("000/EX-28", "002/AX-01")
@pytest.mark.parametrize("chained", [True, False], ids=["chained", "unchained"])
def test_source_with_map_windows_and_sink_are_five_tasks_and_seven_without_chaining(
    anywhere: Env, book: Path, chained: bool
) -> None:
    mapped = windows(anywhere.set_parallelism(2), book, APART)
    if not chained:
        anywhere.disable_operator_chaining()
        mapped.slot_sharing_group("map")
    program = resolved(anywhere)

    anywhere.execute()

    sizes = [vertex.parallelism for vertex in program.job.vertices.values()]
    assert sizes == ([2, 2, 1] if chained else [2, 2, 2, 1])
    assert len(program.job.subtasks) == len(program.shared()) == (5 if chained else 7)
    # A slot is a process with one thread; inline, the one thread takes turns.
    found = places(book)
    assert sorted(found) == [("map", 0), ("map", 1), ("sink", 0), ("window", 0), ("window", 1)]
    assert len(set(found.values())) == (1 if program.options.target == "inline" else 5)
    assert written(book) == TENS


@pytest.mark.spec("000/EX-05")
def test_five_tasks_that_share_nothing_spread_over_two_task_managers(book: Path) -> None:
    env = machines(2, 3).set_parallelism(2)
    word_count(env, book, APART)
    assert len(resolved(env).shared()) == 5

    env.execute()

    tasks = {subtask: place for subtask, place in places(book).items() if subtask[0] != "sink"}
    assert sorted(map(len, by_process(tasks))) == [2, 3]
    assert written(book) == RUNNING


@pytest.mark.spec("000/EX-06")
def test_word_count_at_six_takes_six_slots_with_one_count_in_each(book: Path) -> None:
    env = machines(2, 3).set_parallelism(6)
    word_count(env, book)
    slots = resolved(env).shared()

    env.execute()

    heads = [[subtask.vertex for subtask in subtasks] for subtasks in slots.values()]
    assert [sum(vertex.startswith("process") for vertex in vertices) for vertices in heads] == [1] * 6
    counts = by_process({subtask: place for subtask, place in places(book).items() if subtask[0] == "count"})
    assert sorted(index for part in counts for _, index in part) == list(range(6))
    assert [len(part) for part in counts] == [3, 3]
    assert written(book) == RUNNING


@pytest.mark.spec("000/EX-07", "000/EX-08")
def test_two_task_managers_with_one_slot_each_are_filled_from_source_to_sink(book: Path) -> None:
    env = machines(2, 1).set_parallelism(2)
    word_count(env, book)
    scheduled = [(str(subtask), str(slot)) for subtask, slot in resolved(env).slots.items()]

    env.execute()

    first, second = "task manager 1, slot 1", "task manager 2, slot 1"
    assert scheduled == [
        ("collection-1[0]", first),
        ("flat_map-1[0]", first),
        ("flat_map-1[1]", second),
        ("process-1[0]", first),
        ("process-1[1]", second),
    ]
    tasks = {subtask: place for subtask, place in places(book).items() if subtask[0] != "sink"}
    assert by_process(tasks) == [
        [("count", 0), ("source", 0), ("words", 0)],
        [("count", 1), ("words", 1)],
    ]
    assert written(book) == RUNNING


@pytest.mark.spec("000/EX-08")
def test_subtasks_of_one_thread_are_opened_in_scheduling_order(book: Path) -> None:
    env = machines(1, 2).set_parallelism(2)
    word_count(env, book)

    env.execute()

    order = [subtask for subtask in places(book) if subtask[0] != "sink"]
    assert order == [("source", 0), ("words", 0), ("words", 1), ("count", 0), ("count", 1)]


@pytest.mark.spec("002/AX-58")
@pytest.mark.parametrize(("groups", "needed"), [(None, 6), (APART, 13)], ids=["shared", "apart"])
def test_operators_at_six_six_and_one_need_six_slots_or_thirteen(
    book: Path, groups: Groups, needed: int
) -> None:
    env = machines(1, needed).set_parallelism(6)
    windows(env, book, groups)
    assert f"13 subtasks, {needed} slots on embedded" in env.explain()
    env.execute()
    assert written(book) == TENS

    env = machines(1, needed - 1).set_parallelism(6)
    windows(env, book, groups)
    with pytest.raises(ConfigError, match=rf"the job needs {needed} slots; got {needed - 1} "):
        env.execute()


@pytest.mark.spec("003/EX-06")
def test_a_source_of_three_leaves_one_of_four_slots_with_two_tasks(book: Path) -> None:
    env = machines(4, 1).set_parallelism(4)
    source = env.from_parallel_collection([(word, 1) for word in COUNTS]).set_parallelism(3)
    mapped = source.map(Map(book, "source")).set_parallelism(3).map(Map(book, "map"))
    mapped.rebalance().add_sink(Out(book, "sink"))

    env.execute()

    assert by_process(places(book)) == [
        *([("map", index), ("sink", index), ("source", index)] for index in range(3)),
        [("map", 3), ("sink", 3)],
    ]
    assert written(book) == Counter({(word, 1): 1 for word in COUNTS})


@pytest.mark.spec("004/AX-036")
@pytest.mark.parametrize(
    ("parallelism", "groups", "slots"),
    [(2, APART, 5), (2, None, 2), (6, None, 6)],
    ids=["2 apart", "2 shared", "6 shared"],
)
def test_sharing_brings_the_slots_down_to_the_highest_parallelism(
    book: Path, parallelism: int, groups: Groups, slots: int
) -> None:
    env = machines(2, 3).set_parallelism(parallelism)
    windows(env, book, groups)
    assert resolved(env).job.slots == len(resolved(env).shared()) == slots

    env.execute()

    assert len(by_process(places(book))) == 2
    assert written(book) == TENS


@pytest.mark.spec("003/EX-04", "004/AX-038")
@pytest.mark.parametrize("parallelism", [2, 5])
def test_word_count_goes_through_all_graphs_and_runs_as_many_subtasks(
    anywhere: Env, book: Path, parallelism: int, request: pytest.FixtureRequest
) -> None:
    pairs = anywhere.set_parallelism(parallelism).from_parallel_collection(
        [(word, 1) for word in COUNTS] * 10
    )
    sums = pairs.map(Map(book, "map")).key_by(lambda pair: pair[0]).sum(1)
    sums.add_sink(Out(book, "print"))
    program = resolved(anywhere)
    execution = ExecutionGraph(program.job)

    anywhere.execute()

    titles = ["Source: Collection Source", "Map", "sum", "Sink: FunctionSink"]
    assert [node.title for node in program.steps.nodes.values()] == titles
    assert [vertex.name for vertex in program.job.vertices.values()] == [
        " -> ".join(titles[:2]),
        " -> ".join(titles[2:]),
    ]
    assert [vertex.subtask for vertex in execution.vertices] == program.job.subtasks
    assert len(execution.vertices) == 2 * parallelism
    # On Spark each epoch opens them, and here there is one that reads and a last one.
    epochs = 2 if "spark" in request.node.callspec.id else 1
    found = sorted(places(book, epochs))
    assert found == sorted((step, i) for step in ("map", "print") for i in range(parallelism))
    assert written(book) == Counter({(word, n): 1 for word in COUNTS for n in range(1, 11)})
