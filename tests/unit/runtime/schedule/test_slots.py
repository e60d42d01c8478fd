"""Which subtask runs in which slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tidegate.connectors.collection import CollectionSource
from tidegate.errors import ConfigError
from tidegate.ids import Subtask
from tidegate.options import Layer, load
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Hash, KeyedForward, Transformation
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.runtime.options import JobOptions
from tidegate.runtime.schedule.slots import Slot, allocate, cluster_size, memory_of_task, memory_shares

Step = Callable[..., Transformation]


def word_count(step: Step, parallelism: int, *, shared: bool = True) -> JobGraph:
    """A source of one; flat map, and keyed sum with sink, of `parallelism`."""

    def group(name: str) -> str | None:
        return None if shared else name

    source = step("source", name="source", parallelism=1, slot_sharing_group=group("a"))
    words = step("flat_map", source, name="flat", slot_sharing_group=group("b"))
    total = step("reduce", words, name="sum", partition=Hash(abs), slot_sharing_group=group("c"))
    return build_job_graph(build_stream_graph([step("sink", total)], parallelism=parallelism))


def held(places: dict[Subtask, Slot]) -> dict[Slot, list[str]]:
    slots: dict[Slot, list[str]] = {}
    for subtask, slot in places.items():
        slots.setdefault(slot, []).append(str(subtask))
    return slots


@pytest.mark.spec("004/SLT-015")
def test_two_task_managers_with_one_slot_each_share_word_count(step: Step) -> None:
    assert held(allocate(word_count(step, 2), 2, 1)) == {
        Slot(0, 0): ["source-1[0]", "flat-1[0]", "sum-1[0]"],
        Slot(1, 0): ["flat-1[1]", "sum-1[1]"],
    }


def test_subtasks_are_placed_from_source_to_sink(step: Step) -> None:
    assert [str(subtask) for subtask in allocate(word_count(step, 2), 2, 1)] == [
        "source-1[0]",
        "flat-1[0]",
        "flat-1[1]",
        "sum-1[0]",
        "sum-1[1]",
    ]


def test_five_tasks_that_do_not_share_spread_over_six_slots(step: Step) -> None:
    places = allocate(word_count(step, 2, shared=False), 2, 3)

    assert len(places) == 5
    assert all(len(subtasks) == 1 for subtasks in held(places).values())
    assert Counter(slot.task_manager for slot in places.values()) == {0: 3, 1: 2}
    assert {slot.number for slot in places.values()} == {0, 1, 2}


@pytest.mark.spec("004/SLT-016")
@pytest.mark.spec("003/TE-10")
def test_word_count_at_six_takes_six_slots_with_one_sum_in_each(step: Step) -> None:
    graph = word_count(step, 6)
    places = allocate(graph, 2, 3)

    assert graph.slots == len(held(places)) == 6
    sums = [slot for subtask, slot in places.items() if subtask.vertex == "sum-1"]
    assert len(set(sums)) == 6
    assert Counter(slot.task_manager for slot in sums) == {0: 3, 1: 3}


@pytest.mark.spec("004/SLT-016", "004/SLT-017")
@pytest.mark.spec("003/TE-09")
def test_sharing_brings_the_slots_down_to_the_highest_parallelism(step: Step) -> None:
    def job(highest: int, *, shared: bool) -> JobGraph:
        groups = (None, None, None) if shared else ("a", "b", "c")
        first = step("map", step("source", slot_sharing_group=groups[0]))
        window = step("process", first, partition=Hash(abs), slot_sharing_group=groups[1])
        sink = step("sink", window, parallelism=1, slot_sharing_group=groups[2])
        return build_job_graph(build_stream_graph([sink], parallelism=highest))

    assert len(job(2, shared=False).subtasks) == 5
    assert len(held(allocate(job(2, shared=False), 2, 3))) == 5
    assert len(held(allocate(job(2, shared=True), 2, 3))) == 2
    assert len(held(allocate(job(6, shared=True), 2, 3))) == 6


def test_more_slots_than_there_are_is_refused_with_the_numbers(step: Step) -> None:
    with pytest.raises(
        ConfigError,
        match=r"the job needs 7 slots; got 6 \(task managers: 2, slots of each: 3\); lower the parallelism",
    ):
        allocate(word_count(step, 7), 2, 3)


def test_co_located_subtasks_of_equal_index_share_a_slot(step: Step) -> None:
    narrow = step("source", name="narrow", parallelism=1)
    head = step("map", step("source", name="wide"), name="head", chaining="never", co_location_group="loop")
    tail = step("map", head, name="tail", chaining="never", co_location_group="loop")
    graph = build_job_graph(build_stream_graph([step("sink", narrow), step("sink", tail)], parallelism=3))

    places = allocate(graph, 3, 1)

    assert [places[Subtask("head-1", i)] for i in range(3)] == [
        places[Subtask("tail-1", i)] for i in range(3)
    ]
    assert graph.vertices["tail-1"].co_location_group == "loop"


@pytest.mark.parametrize(
    ("different", "message"),
    [
        ({"parallelism": 3}, "co-located as 'loop' but have parallelism 2 and 3"),
        ({"slot_sharing_group": "x"}, "co-located as 'loop' but have slot sharing group 'default' and 'x'"),
    ],
)
def test_co_located_steps_that_cannot_share_slots_are_refused(
    step: Step, different: dict[str, object], message: str
) -> None:
    head = step("map", step("source"), co_location_group="loop")
    tail = step("map", head, co_location_group="loop", **different)

    with pytest.raises(ConfigError, match=message):
        build_stream_graph([step("sink", tail)], parallelism=2)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (6, 1)),
        ({"taskmanager.numberOfTaskSlots": 4}, (2, 4)),
        ({"taskmanager.numberOfTaskSlots": 3, "minicluster.number-of-taskmanagers": 5}, (5, 3)),
    ],
)
def test_a_cluster_has_the_task_managers_a_job_needs_or_those_it_is_given(
    step: Step, settings: dict[str, object], expected: tuple[int, int]
) -> None:
    options = load(JobOptions, Layer("test", settings))

    assert cluster_size(word_count(step, 6), options) == expected


def test_a_slot_is_named_for_people() -> None:
    assert str(Slot(1, 2)) == "task manager 2, slot 3"


@given(
    sizes=st.lists(st.tuples(st.integers(1, 6), st.sampled_from("ab")), min_size=1, max_size=6),
    slots_each=st.integers(1, 4),
)
@pytest.mark.spec("003/TE-07")
def test_slots_hold_one_group_and_at_most_one_subtask_of_each_vertex(
    sizes: list[tuple[int, str]], slots_each: int
) -> None:
    def source(parallelism: int, group: str) -> Transformation:
        payload = CollectionSource([1])
        return Transformation(SOURCE, "s", payload, parallelism=parallelism, slot_sharing_group=group)

    steps = [source(*size) for size in sizes]
    graph = build_job_graph(build_stream_graph(steps, parallelism=1))
    task_managers = -(-graph.slots // slots_each)

    places = allocate(graph, task_managers, slots_each)

    assert list(places) == graph.subtasks
    assert len(set(places.values())) == graph.slots
    assert len({(slot, subtask.vertex) for subtask, slot in places.items()}) == len(places)
    groups = {(slot, graph.vertices[each.vertex].slot_sharing_group) for each, slot in places.items()}
    assert len(groups) == graph.slots
    used = Counter(slot.task_manager for slot in set(places.values()))
    assert max(used.values()) - min(used.values()) <= 1
    assert max(used.values()) <= slots_each


@given(parallelism=st.integers(1, 9), managers=st.integers(1, 4), each=st.integers(1, 3))
def test_a_batch_job_runs_in_the_slots_there_are(
    step: Step, parallelism: int, managers: int, each: int
) -> None:
    source = step("source", slot_sharing_group="a")
    total = step("reduce", source, partition=Hash(abs), slot_sharing_group="b")
    graph = build_job_graph(build_stream_graph([step("sink", total)], parallelism=parallelism, mode="BATCH"))
    places = allocate(graph, managers, each)

    assert graph.slots == parallelism
    assert list(places) == graph.subtasks
    assert len(set(places.values())) == min(parallelism, managers * each)
    used = {slot.task_manager for slot in places.values()}
    assert used == set(range(len(used)))


MEGABYTE = 1024 * 1024


@pytest.mark.spec("002/AX-02", "004/AX-037", "004/SLT-003")
@pytest.mark.spec("003/TE-06")
def test_each_of_three_slots_owns_a_third_of_the_managed_memory(step: Step) -> None:
    places = allocate(word_count(step, 3), 1, 3, 300 * MEGABYTE)

    slots = {slot.number: slot.memory_bytes for slot in places.values()}

    assert slots == dict.fromkeys(range(3), 100 * MEGABYTE)


def test_subtasks_with_state_divide_their_slot_and_others_take_nothing(step: Step) -> None:
    words = step("flat_map", step("source", name="source"), name="flat")
    first = step("reduce", words, name="first", partition=Hash(abs))
    second = step("reduce", first, name="second", partition=Hash(str))
    graph = build_job_graph(build_stream_graph([step("sink", second)], parallelism=2))

    shares = memory_shares(graph, allocate(graph, 2, 1, 64 * MEGABYTE))

    assert {str(subtask): share // MEGABYTE for subtask, share in shares.items()} == {
        "first-1[0]": 32,
        "first-1[1]": 32,
        "second-1[0]": 32,
        "second-1[1]": 32,
    }


def test_a_subtask_of_two_steps_with_state_has_two_parts(step: Step) -> None:
    words = step("flat_map", step("source", name="source"), name="flat")
    first = step("reduce", words, name="first", partition=Hash(abs))
    second = step("reduce", first, name="second", partition=KeyedForward(abs))
    third = step("reduce", second, name="third", partition=Hash(str))
    graph = build_job_graph(build_stream_graph([step("sink", third)], parallelism=1))

    shares = memory_shares(graph, allocate(graph, 1, 1, 60 * MEGABYTE))

    assert {str(subtask): share // MEGABYTE for subtask, share in shares.items()} == {
        "first-1[0]": 40,
        "third-1[0]": 20,
    }


def test_without_a_limit_nobody_has_a_share(step: Step) -> None:
    graph = word_count(step, 2)

    assert memory_shares(graph, allocate(graph, 2, 1)) == {}


def test_a_share_that_nothing_can_work_with_is_refused(step: Step) -> None:
    graph = word_count(step, 2)

    with pytest.raises(
        ConfigError,
        match=r"too small: task manager 1, slot 1 gives 1000 bytes to each of 1 steps with state; "
        r"expected at least 1048576; raise taskmanager\.memory\.managed\.size",
    ):
        memory_shares(graph, allocate(graph, 1, 2, 2_000))


def test_tasks_of_an_executor_divide_its_memory() -> None:
    assert memory_of_task(64 * MEGABYTE, 4) == 16 * MEGABYTE
    assert memory_of_task(None, 4) is None
    with pytest.raises(
        ConfigError,
        match=r"too small: it gives 500 bytes to each of the 4 tasks that an executor runs in parallel; expected at least 1048576; "
        r"raise taskmanager\.memory\.managed\.size",
    ):
        memory_of_task(2_000, 4)
