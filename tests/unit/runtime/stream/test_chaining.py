"""What programs say about threads and slots, and what becomes of it when they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.datastream import (
    DataStream,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from tidegate.errors import ConfigError
from tidegate.runtime.explain import Explained, explained

WORDS = ["to", "be", "or", "not", "to", "be"] * 10


class Where(MapFunction):
    """Adds in which process and subtask a record is."""

    def open(self, runtime_context: Any) -> None:
        import os

        self.where = (os.getpid(), runtime_context.get_index_of_this_subtask())

    def map(self, value: Any) -> Any:
        return value, self.where


class Late(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value
        yield OutputTag("late"), value


def described(env: StreamExecutionEnvironment) -> Explained:
    return explained(env._launch(tuple(env._sinks), None))


def chains(env: StreamExecutionEnvironment) -> list[tuple[str, int]]:
    return [(vertex.name, vertex.parallelism) for vertex in described(env).job.vertices.values()]


def beside(env: StreamExecutionEnvironment, stream: DataStream) -> DataStream:
    return stream.union(env.from_parallel_collection(WORDS[:0]))


def unchained(env: StreamExecutionEnvironment, stream: DataStream) -> DataStream:
    env.disable_operator_chaining()
    return stream


@pytest.mark.spec("004/AX-035")
@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (None, lambda last: last.set_parallelism(1), "parallelism differs, records are repartitioned"),
        (beside, None, "the downstream step has several inputs"),
        (None, lambda last: last.slot_sharing_group("other"), "slot sharing groups differ"),
        (None, lambda last: last.start_new_chain(), "the downstream step starts a chain"),
        (lambda env, stream: stream.disable_chaining(), None, "the upstream step ends its chain"),
        (lambda env, stream: stream.rebalance(), None, "records are repartitioned"),
        (unchained, None, "chaining is off"),
    ],
    ids=["parallelism", "one input", "slot group", "always", "head", "forward", "enabled"],
)
def test_each_condition_alone_keeps_two_steps_apart_and_changes_no_result(
    anywhere: StreamExecutionEnvironment, before: Any, after: Any, why: str
) -> None:
    def program(*, broken: bool) -> DataStream:
        stream = anywhere.from_parallel_collection(WORDS).map(str.upper)
        if broken and before is not None:
            stream = before(anywhere, stream)
        last = stream.filter(bool)
        return after(last) if broken and after is not None else last

    program(broken=False).print()
    assert [name for name, _ in chains(anywhere)] == [
        "Source: Collection Source -> Map -> Filter -> Sink: Print to Std. Out"
    ]
    anywhere._sinks.clear()
    program(broken=True).print()
    found = described(anywhere)
    edges = [edge for vertex in found.job.vertices.values() for edge in vertex.outputs]
    reasons = {", ".join(found.reasons(edge)) for edge in edges if edge.target == "filter-1"}
    assert reasons == {why}
    anywhere._sinks.clear()
    assert Counter(program(broken=True).execute_and_collect()) == Counter(map(str.upper, WORDS))


def test_chaining_is_on_until_it_is_switched_off() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()

    assert env.is_chaining_enabled()
    assert not env.disable_operator_chaining().is_chaining_enabled()


def test_a_chain_begins_and_ends_where_the_program_says(anywhere: StreamExecutionEnvironment) -> None:
    stream = (
        anywhere.from_parallel_collection(WORDS).filter(bool).map(str.upper).start_new_chain().map(str.lower)
    )
    alone = stream.map(str.title).disable_chaining().map(str.strip)
    alone.print()

    assert [name for name, _ in chains(anywhere)] == [
        "Source: Collection Source -> Filter",
        "Map -> Map",
        "Map",
        "Map -> Sink: Print to Std. Out",
    ]
    anywhere._sinks.clear()
    assert Counter(alone.execute_and_collect()) == Counter(word.title() for word in WORDS)


def test_groups_that_share_no_slot_share_no_process() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"pipeline.progress": "off", "execution.target": "embedded", "parallelism.default": 1}
    )
    heavy = env.from_parallel_collection(range(4)).map(Where()).map(Where()).slot_sharing_group("heavy")

    assert {here != there for (_, (there, _)), (here, _) in heavy.execute_and_collect()} == {True}


@pytest.mark.spec("001/EX-01")
def test_two_task_managers_with_three_slots_run_six_subtasks_and_refuse_seven() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "pipeline.progress": "off",
            "execution.target": "embedded",
            "minicluster.number-of-taskmanagers": 2,
            "taskmanager.numberOfTaskSlots": 3,
        }
    )
    found = [
        where
        for _, where in env.set_parallelism(6)
        .from_parallel_collection(range(60))
        .map(Where())
        .execute_and_collect()
    ]

    places = set(found)
    assert sorted(index for _, index in places) == [0, 1, 2, 3, 4, 5]
    assert sorted(Counter(process for process, _ in places).values()) == [3, 3]
    env.set_parallelism(7).from_parallel_collection(range(60)).print()
    with pytest.raises(
        ConfigError, match=r"the job needs 7 slots; got 6 \(task managers: 2, slots of each: 3\)"
    ):
        env.execute()


@pytest.mark.spec("003/EX-37")
@pytest.mark.parametrize("parallelism", [(2, 3, 1), (1, 1, 1)], ids=["two, three, one", "one each"])
def test_three_stages_of_markers_mark_all_exams(
    anywhere: StreamExecutionEnvironment, parallelism: tuple[int, int, int]
) -> None:
    fetch, mark_b, total = parallelism
    exams = anywhere.from_parallel_collection([(exam, "") for exam in range(30)]).set_parallelism(fetch)
    marked = exams.map(lambda exam: (exam[0], exam[1] + "A")).set_parallelism(fetch)
    marked = marked.map(lambda exam: (exam[0], exam[1] + "B")).set_parallelism(mark_b)
    marked = marked.map(lambda exam: (exam[0], exam[1] + "C")).set_parallelism(total)
    marked.print().set_parallelism(total)

    assert [size for _, size in chains(anywhere)] == ([2, 3, 1] if parallelism == (2, 3, 1) else [1])
    anywhere._sinks.clear()
    assert sorted(marked.execute_and_collect()) == [(exam, "ABC") for exam in range(30)]


@pytest.mark.parametrize("method", ["start_new_chain", "disable_chaining"])
def test_a_view_of_other_steps_has_no_thread_of_its_own(method: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_parallel_collection([1])
    views = {
        "union": stream.union(stream),
        "side output late": stream.process(Late()).get_side_output(OutputTag("late")),
    }

    for name, view in views.items():
        with pytest.raises(ConfigError, match=f"{method} is for an operator; '{name}' is only a view"):
            getattr(view, method)()
        with pytest.raises(ConfigError, match="set_parallelism is for an operator"):
            view.set_parallelism(2)


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("", "slot sharing group is empty"),
        (7, "slot_sharing_group takes a str or a SlotSharingGroup; got int"),
    ],
)
def test_a_slot_sharing_group_needs_a_name(group: Any, message: str) -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_parallel_collection([1])

    with pytest.raises(ConfigError, match=message):
        stream.slot_sharing_group(group)
