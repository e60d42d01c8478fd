"""Checkpoints under failures that a seed determines; a failing seed can be repeated by its number."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Profile
from tests.simulation.mutations import MUTATIONS
from tidegate.errors import InternalError
from tidegate.runtime import job, status
from tidegate.runtime.checkpoint import archive, coordinator, lease_acquirer
from tidegate.runtime.embedded import cluster, failover_regions, taskmanager, worker_group
from tidegate.runtime.schedule import restart_options
from tidegate.runtime.schedule.regions import joined
from tidegate.runtime.schedule.restart import FixedDelay
from tidegate.runtime.schedule.states import JobLife
from tidegate.runtime.task import downstream
from tidegate.testing.simulation import Machines, World, owner

SEEDS, AT_ONCE, MORE_SEEDS = 2_000, 100, 20_000
PROOF = Path(__file__).resolve().parent.parent.parent / "docs" / "proof.md"


def simulate(seed: int) -> World:
    world = World(seed)
    world.run()
    return world


def caught(machines: Machines, words: str, seeds: int) -> int | None:
    """The first seed that fails with this message; None if no seed does."""
    for seed in range(seeds):
        try:
            World(seed, machines).run()
        except InternalError as error:
            if re.search(words, str(error)):
                return seed
    return None


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_seeds_keep_every_invariant(first: int) -> None:
    worlds = [simulate(seed) for seed in range(first, first + AT_ONCE)]

    assert sum(world.ended for world in worlds) > AT_ONCE / 2
    assert all(world.ended or world.stopped is not None for world in worlds)


def test_many_more_seeds_keep_every_invariant(profile: Profile) -> None:
    for seed in range(SEEDS, MORE_SEEDS if profile == "long" else SEEDS + 20):
        simulate(seed)


def test_seeds_reach_every_kind_of_failure() -> None:
    traces = ["\n".join(simulate(seed).trace) for seed in range(280)]
    wanted = [
        *("crash", "hangs", "wakes up in time", "stood still for 10 s", "transactions time out"),
        *("not acknowledged within 1000 ms", "no space left", "the storage did not answer", "was aborted"),
        *(
            "the attempt fails",
            "the storage rejected the change",
            "the outcome of a storage change is unknown",
            "term .* was replaced",
        ),
        *(
            "worker . is gone",
            "worker . has not answered for",
            "worker . restored",
            "restarts are exhausted",
        ),
        *(
            "release: checkpoints \\d+",
            "end job",
            "write savepoint",
            "savepoint failed",
            "has overtaken records",
        ),
        *(
            "is stopped between check and act",
            "wakes up too late",
            "has had no lease renewal from the owner of its run",
        ),
        *("answered .* retry", "answered .* already_committed", "an operator is needed"),
    ]

    assert [text for text in wanted if not any(re.search(text, trace) for trace in traces)] == []


def test_a_seed_runs_the_same_way_every_time() -> None:
    assert simulate(7).trace == simulate(7).trace


def test_a_seed_that_fails_says_how_to_see_it() -> None:
    machines, words = next(iter(MUTATIONS.values()))

    with pytest.raises(InternalError, match=words) as failed:
        World(0, machines).run()

    assert failed.value.__notes__ == ["reproduce this run: tidegate simulate --seed 0"]


@pytest.mark.parametrize(
    ("machine", "users"),
    [
        (Machines().coordinator, [job]),
        (Machines().ledger, [coordinator, job.__dict__["ledger"]]),
        (Machines().registry, [archive, coordinator]),
        (Machines().alignment, [downstream]),
        (Machines().failover, [failover_regions.__dict__["fo"]]),
        (Machines().heartbeats, [failover_regions]),
        (Machines().judge, [lease_acquirer]),
        (Machines().lease, [cluster, taskmanager]),
        (FixedDelay, [owner, restart_options]),
        (JobLife, [owner, status]),
        (joined, [owner, worker_group.__dict__["parts"].__globals__]),
    ],
    ids=lambda value: getattr(value, "__name__", "used"),
)
def test_the_machines_are_those_that_the_executors_run_on(
    machine: Callable[..., Any], users: list[Any]
) -> None:
    names = [user if isinstance(user, dict) else vars(user) for user in users]

    assert [each[machine.__name__] is machine for each in names] == [True] * len(users)


@pytest.mark.parametrize("broken", MUTATIONS, ids=lambda broken: broken.__name__)
def test_a_broken_machine_is_caught(broken: type) -> None:
    machines, words = MUTATIONS[broken]

    assert caught(machines, words, seeds=500) is not None


def test_the_page_of_proof_lists_every_mutation_and_no_other() -> None:
    listed = re.findall(r"^\| .* \| `(\w+)`[^|]*\|$", PROOF.read_text(encoding="utf-8"), re.MULTILINE)

    assert sorted(listed) == sorted(broken.__name__ for broken in MUTATIONS)
