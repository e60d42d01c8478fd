"""Random programs, and what happens to them while they run."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st

from tests.random_changes.model import Change, expected
from tests.random_changes.program import Described
from tests.random_changes.steps import DEALS, IN_BATCH, IN_EPOCHS, STEPS

__all__ = ["CHANGES", "Run", "batch_job", "interrupted", "model", "programs"]

CHANGES: Final = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), max_size=20)
MANY, MOST, PAUSE_S = 480, 3_000, 0.03
JOBMANAGER: Final = (
    "checkpoint.before-metadata",
    "checkpoint.after-metadata",
    "checkpoint.before-swap",
    "checkpoint.after-swap",
    "checkpoint.before-settled",
    "checkpoint.after-settled",
)
AT_THE_END: Final = ("later", "total", "windows")
"""Steps behind which nothing comes before."""
OVERTAKABLE: Final = ("hash", "rebalance", "shuffle", "global")
WORKER: Final = ("task.after-batch", "task.before-snapshot", "task.after-snapshot", "task.before-ack")


@dataclass(frozen=True)
class Run:
    """One start of a program: where a process dies, and whether it ends with a savepoint of a form."""

    parallelism: int
    backend: str
    unaligned: bool
    fault: str = ""
    savepoint: str = ""

    def settings(self) -> dict[str, Any]:
        """What differs between runs."""
        return {
            "parallelism.default": self.parallelism,
            "state.backend.type": self.backend,
            "execution.checkpointing.unaligned.enabled": self.unaligned,
        }


def model(program: Described) -> Counter[Change]:
    """What comes out of a program."""
    return expected(program.steps, program.changes, program.bounded)


@st.composite
def programs(draw: st.DrawFn, *, iterations: bool = True) -> Described:
    """Programs of up to five steps over up to twenty changes."""
    bounded = draw(st.booleans())
    known = IN_BATCH if bounded else sorted(STEPS) if iterations else IN_EPOCHS
    deals = st.tuples(st.sampled_from(sorted(DEALS)), st.integers(1, 3), st.just(0))
    steps: list[Any] = draw(st.lists(st.one_of(st.sampled_from(known), deals), max_size=5))
    source = draw(st.sampled_from(["changes", "collection", "hybrid"]))
    return Described(steps, draw(CHANGES), source, draw(st.booleans()), bounded)


def interrupted(seed: int) -> tuple[Described, list[Run]]:
    """A program with an exchange where records wait, and its runs.

    In the first run the process of the job is killed while records wait; the second one ends with a savepoint. The last one
    is restored from it, and one of its workers is killed.
    """
    chance = random.Random(seed)
    program = _program(chance, IN_EPOCHS, waiting=True)
    backends = chance.sample(["heap", "filesystem", "rocksdb"], k=3)
    jobmanager = f"jobmanager/{chance.choice(JOBMANAGER)}@5"  # the fourth checkpoint has overtaken records
    worker = f"taskmanager-{chance.randrange(2)}/{chance.choice(WORKER)}@{chance.randint(2, 4)}"
    return program, [
        Run(2, backends[0], True, jobmanager),
        Run(1, backends[1], chance.random() < 0.5, savepoint=chance.choice(["canonical", "native"])),
        Run(2, backends[2], True, worker),
    ]


def batch_job(seed: int) -> Described:
    """A program that runs in batch mode."""
    return replace(_program(random.Random(seed), IN_BATCH, waiting=False), bounded=True)


def _program(chance: random.Random, known: list[str], *, waiting: bool) -> Described:
    changes = [(chance.randrange(4), chance.randrange(3), chance.randrange(10)) for _ in range(MANY)]
    while True:
        steps: list[Any] = chance.sample(known, k=4)
        for _ in range(2):
            steps.insert(chance.randrange(5), [chance.choice(sorted(DEALS)), chance.randint(1, 2), 0])
        if waiting:
            held = min((steps.index(step) for step in AT_THE_END if step in steps), default=len(steps))
            steps.insert(chance.randint(0, held), [chance.choice(OVERTAKABLE), 2, PAUSE_S])
        program = Described(steps, changes, chance.choice(["changes", "hybrid"]), chance.random() < 0.7)
        if len(changes) // 4 < sum(model(program).values()) < MOST:
            return program
