"""The timeline of real jobs: at every checkpoint state is what the input read by then makes of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.storage import LocalStorage
from tidegate.backends.timeline import key_of, value_of
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state
from tidegate.runtime.checkpoint.timeline import Difference, Selection, Timeline
from tidegate.runtime.checkpoint.verify import verify

RECORDS = 1_000
KEYS = 7


class Count(KeyedProcessFunction):
    seen = state.Value(int, default=0)

    def process_element(self, value: int, ctx: Any) -> None:
        self.seen.update(self.seen.value() + 1)


def counted(found: list[Difference]) -> dict[int, int]:
    return {
        key_of(each.change.key): value_of(each.change.state, each.change.after)
        for each in found
        if each.change.after is not None
    }


def read_by_each(timeline: Timeline) -> list[int]:
    """How many records each checkpoint has seen; a source that is at its end has no split any more, nor at first."""
    read: list[int] = []
    for moment in timeline.moments():
        positions = timeline.positions(moment.checkpoint, moment.checkpoint)
        begun = bool(read) and read[-1] > 0
        done = RECORDS if begun else 0
        read.append(sum(each.after["next"] for each in positions if each.after) if positions else done)
    return read


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_state_at_every_checkpoint_is_what_was_read_by_then(
    anywhere: StreamExecutionEnvironment, backend: str, tmp_path: Path
) -> None:
    anywhere.configure(
        {
            "state.backend.type": backend,
            "state.checkpoints.dir": str(tmp_path),
            "execution.checkpointing.interval": "50 ms",
            "state.checkpoints.num-retained": 100,
        }
    )
    source = GeneratorSource(int, RECORDS, rate_per_second=2_500)
    numbers = anywhere.from_source(source).set_parallelism(1).key_by(lambda number: number % KEYS)
    numbers.process(Count()).uid("counts")
    anywhere.execute("counting")

    with Timeline(LocalStorage(tmp_path), "counting") as timeline:
        moments = timeline.moments()
        assert len(moments) > 1
        expected = [Counter(number % KEYS for number in range(read)) for read in read_by_each(timeline)]
        assert [counted(list(timeline.held(moment.checkpoint))) for moment in moments] == expected
        assert [each for m in moments for each in verify(timeline, m.checkpoint, deep=True)] == []
        told = [counted([each])[3] for _, each in timeline.history(Selection(key=3))]
        assert told == sorted({counts[3] for counts in expected} - {0})
