"""Groups of steps that may share slots: by name, or with what their slots need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.datastream import MemorySize, SlotSharingGroup, StreamExecutionEnvironment
from tidegate.errors import ConfigError
from tidegate.runtime.explain import explained

Env = StreamExecutionEnvironment

HEAVY = SlotSharingGroup.builder("heavy").set_cpu_cores(2).set_task_heap_memory_mb(64).build()


@pytest.fixture
def env() -> Env:
    return Env.get_execution_environment({"execution.target": "inline"})


def groups(env: Env) -> list[str]:
    """The slot sharing group of each task of the program."""
    job = explained(env._launch(tuple(env._sinks), None)).job
    return [vertex.slot_sharing_group for vertex in job.vertices.values()]


@pytest.mark.parametrize("given", ["heavy", HEAVY], ids=["name", "group"])
def test_a_group_goes_by_its_name_and_what_follows_inherits_it(
    env: Env, given: str | SlotSharingGroup
) -> None:
    stream = env.from_collection([1]).map(str).slot_sharing_group(given)
    stream.rebalance().map(len).print()

    assert groups(env) == ["default", "heavy", "heavy"]


def test_inputs_of_different_groups_lead_to_the_default_group(env: Env) -> None:
    left = env.from_collection([1]).slot_sharing_group("left")
    right = env.from_collection([2]).slot_sharing_group("right")
    left.union(right).map(str).print()

    assert groups(env) == ["left", "right", "default"]


def test_a_program_whose_steps_are_in_groups_with_resources_gives_the_same(anywhere: Env) -> None:
    stream = anywhere.register_slot_sharing_group(HEAVY).from_collection([1, 2, 3])

    doubled = stream.map(lambda n: n * 2).slot_sharing_group(HEAVY)

    assert sorted(doubled.execute_and_collect()) == [2, 4, 6]


def test_a_group_may_be_registered_and_used_again_but_not_with_other_resources(env: Env) -> None:
    other = SlotSharingGroup.builder("heavy").set_cpu_cores(1).set_task_heap_memory_mb(64).build()
    env.register_slot_sharing_group(HEAVY).register_slot_sharing_group(HEAVY)
    stream = env.from_collection([1]).slot_sharing_group("heavy").slot_sharing_group(HEAVY)
    message = r"slot sharing group 'heavy' has two different sets of resources; build the group once"

    with pytest.raises(ConfigError, match=message):
        env.register_slot_sharing_group(other)
    with pytest.raises(ConfigError, match=message):
        stream.slot_sharing_group(other)


def test_only_a_group_can_be_registered(env: Env) -> None:
    given: Any = "heavy"

    with pytest.raises(ConfigError, match="register_slot_sharing_group takes a SlotSharingGroup; got str"):
        env.register_slot_sharing_group(given)


def test_a_group_keeps_all_that_was_said_of_it() -> None:
    built = (
        SlotSharingGroup.builder("all")
        .set_cpu_cores(0.5)
        .set_task_heap_memory(MemorySize.of_mebi_bytes(1))
        .set_task_off_heap_memory_mb(2)
        .set_managed_memory_mb(3)
        .set_external_resource("gpu", 1)
        .set_external_resource("gpu", 2)
        .build()
    )

    assert (built.get_name(), built.get_cpu_cores()) == ("all", 0.5)
    assert built.get_task_heap_memory() == MemorySize(bytes_size=1_048_576)
    assert built.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(2)
    assert built.get_managed_memory() == MemorySize.of_mebi_bytes(3)
    assert built.get_external_resources() == {"gpu": 2.0}
    assert len({built, HEAVY, SlotSharingGroup.builder("a").build(), SlotSharingGroup("a")}) == 3


def test_a_group_of_which_nothing_is_said_has_no_resources() -> None:
    bare = SlotSharingGroup.builder("bare").build()

    assert bare.get_cpu_cores() is None
    assert bare.get_task_heap_memory() is bare.get_task_off_heap_memory() is bare.get_managed_memory() is None
    assert bare.get_external_resources() == {}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda group: group.set_managed_memory_mb(1).build(),
            "'x' has resources without both cpu cores and task heap memory; set both, or no",
        ),
        (lambda group: group.set_cpu_cores(1).build(), "without both cpu cores and task heap memory"),
        (lambda group: group.set_cpu_cores(0), "cpu cores is 0; expected a number above 0"),
        (lambda group: group.set_external_resource("gpu", "2"), "resource 'gpu' is '2'; expected a number"),
        (lambda group: group.set_task_heap_memory_mb(0), "task heap memory is 0; expected more than 0"),
        (
            lambda group: group.set_task_heap_memory(64),
            "task heap memory is 64; expected a MemorySize such as",
        ),
        (
            lambda group: group.set_managed_memory_mb(-1),
            "memory size is -1; expected an integer of at least 0",
        ),
    ],
    ids=["half", "no memory", "no cores", "resource", "no heap", "memory", "negative"],
)
def test_resources_that_cannot_be_are_refused(build: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(SlotSharingGroup.builder("x"))


def test_a_memory_size_is_seen_in_every_unit_and_compared() -> None:
    size = MemorySize.of_mebi_bytes(5 << 20)

    assert (size.get_tebi_bytes(), size.get_gibi_bytes(), size.get_mebi_bytes()) == (5, 5_120, 5 << 20)
    assert (size.get_kibi_bytes(), size.get_bytes()) == (5 << 30, 5 << 40)
    assert [str(MemorySize(n)) for n in (0, 1, 1_025, 1_024, 3 << 30, 2_048 << 40)] == [
        "0 bytes",
        "1 bytes",
        "1025 bytes",
        "1 kb",
        "3 gb",
        "2048 tb",
    ]
    assert MemorySize(1) < MemorySize(2) <= MemorySize(2)


def test_what_belongs_to_java_says_so() -> None:
    size: Any = MemorySize(1)
    group: Any = HEAVY

    with pytest.raises(
        AttributeError, match="get_java_memory_size is not available: it has no Java implementation"
    ):
        size.get_java_memory_size()
    with pytest.raises(AttributeError, match="get_java_slot_sharing_group is not available: it has no Java"):
        group.get_java_slot_sharing_group()
