"""When files end and are merged, and what makes no sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.connectors.files import Compaction, RollingPolicy
from tidegate.errors import ConfigError


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        (RollingPolicy(part_size=10), [(10, 0, 0)]),
        (RollingPolicy(rollover_interval=5), [(0, 5, 0), (0, 5, 5)]),
        (RollingPolicy(inactivity_interval=5), [(0, 5, 5)]),
        (RollingPolicy(), []),
    ],
    ids=["size", "rollover", "inactivity", "checkpoints only"],
)
def test_a_file_ends_when_one_of_its_limits_is_reached(
    policy: RollingPolicy, ends: list[tuple[int, int, int]]
) -> None:
    states = [(9, 4, 4), (10, 0, 0), (0, 5, 0), (0, 5, 5)]

    assert [
        (size, age, idle)
        for size, age, idle in states
        if policy.ends(size, begun_ms=100 - age, written_ms=100 - idle, now_ms=100)
    ] == ends


def test_the_default_limits_are_flinks() -> None:
    assert RollingPolicy.default_rolling_policy() == RollingPolicy(
        128 * 1024 * 1024, 60_000, 60_000, on_checkpoint=False
    )
    assert RollingPolicy.on_checkpoint_rolling_policy() == RollingPolicy()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RollingPolicy(part_size=0), "rolling policy: part_size is 0; expected at least 1, or None"),
        (
            lambda: RollingPolicy(on_checkpoint=False),
            "no file would ever end; got neither size, time nor on_check",
        ),
        (lambda: Compaction(), "compaction: got neither size nor checkpoints; set one of them"),
        (lambda: Compaction(checkpoints=0), "compaction: checkpoints is 0; expected at least 1, or None"),
    ],
    ids=["size", "endless", "never", "none"],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_files_are_merged_by_their_size_or_after_some_checkpoints() -> None:
    both = Compaction(size=10, checkpoints=3)

    assert [both.is_due(*state) for state in ((9, 2), (10, 1), (0, 3))] == [False, True, True]
    assert not Compaction(size=10).is_due(9, 1_000)
