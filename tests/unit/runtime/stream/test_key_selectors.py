"""Keys given by functions, positions and names, wherever a program gives one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tidegate.common import Duration, Row, Types, WatermarkStrategy
from tidegate.datastream import CoMapFunction, KeySelector, MapFunction, StreamExecutionEnvironment
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.errors import JobFailedError

Env = StreamExecutionEnvironment


@dataclass(frozen=True)
class WordWithCount:
    word: str
    count: int


class ByWord(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


class Side(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "pair", value[0]

    def map2(self, value: Any) -> Any:
        return "dict", value["word"]


class Where(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return value[0], self.subtask


class Attributes(Where):
    def map(self, value: Any) -> Any:
        return value.word, self.subtask


PAIRS = [("to", 1), ("be", 2), ("to", 3)]


@pytest.mark.spec("000/OPS-05", "000/OPS-07")
@pytest.mark.parametrize("key", [0, -2, ByWord(), lambda pair: pair[0]], ids=["0", "-2", "class", "function"])
def test_tuples_are_keyed_by_position_or_function(anywhere: Env, key: Any) -> None:
    sums = anywhere.from_collection(PAIRS).set_parallelism(1).key_by(key).sum(1)

    assert sorted(sums.execute_and_collect()) == [("be", 2), ("to", 1), ("to", 4)]


@pytest.mark.spec("000/OPS-06", "004/PAR-025")
def test_rows_and_dicts_are_keyed_and_summed_by_name(anywhere: Env) -> None:
    rows = anywhere.from_collection([Row(word=word, count=n) for word, n in PAIRS]).set_parallelism(1)
    dicts = anywhere.from_collection([{"word": word, "count": n} for word, n in PAIRS]).set_parallelism(1)

    sums = [
        stream.key_by("word").sum("count").map(lambda each: (each["word"], each["count"]))
        for stream in (rows, dicts)
    ]

    assert sorted(sums[0].union(sums[1]).execute_and_collect()) == sorted(
        [("be", 2), ("to", 1), ("to", 4)] * 2
    )


@pytest.mark.spec("000/OPS-06")
def test_objects_are_keyed_by_the_name_of_an_attribute(anywhere: Env) -> None:
    counts = [WordWithCount(*pair) for pair in PAIRS]
    words = anywhere.from_collection(counts, Types.of(WordWithCount))

    found = words.key_by("word").map(Attributes()).execute_and_collect()

    subtasks: dict[str, set[int]] = {}
    for word, subtask in found:
        subtasks.setdefault(word, set()).add(subtask)
    assert {word: len(where) for word, where in subtasks.items()} == {"to": 1, "be": 1}


@pytest.mark.spec("002/ST-24")
def test_two_streams_meet_by_fields_of_different_places(anywhere: Env) -> None:
    start = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: 0)
    pairs = anywhere.from_collection(PAIRS).assign_timestamps_and_watermarks(start)
    turned = anywhere.from_collection([(9, "to")]).assign_timestamps_and_watermarks(start)

    joined = (
        pairs.join(turned).where(0).equal_to(1).window(TumblingEventTimeWindows.of(Duration.of_seconds(5)))
    )

    found = joined.apply(lambda pair, other: (pair[1], other[0])).execute_and_collect()
    assert sorted(found) == [(1, 9), (3, 9)]


@pytest.mark.spec("002/PA-03")
def test_connected_streams_and_partitioners_take_fields(anywhere: Env) -> None:
    pairs = anywhere.from_collection(PAIRS)
    dicts = anywhere.from_collection([{"word": "or"}])

    keyed = pairs.connect(dicts).key_by(0, "word").map(Side())
    dealt = pairs.partition_custom(lambda key, subtasks: subtasks - 1, 0).map(Where())

    last = anywhere.get_config().get_parallelism() - 1
    assert sorted(keyed.union(dealt).execute_and_collect(), key=str) == sorted(
        [
            ("pair", "to"),
            ("pair", "be"),
            ("pair", "to"),
            ("dict", "or"),
            ("to", last),
            ("be", last),
            ("to", last),
        ],
        key=str,
    )


def test_a_record_without_the_field_is_named(anywhere: Env) -> None:
    with pytest.raises(
        JobFailedError, match=r"record \('to', 1\) has no field 2; name one that every record has"
    ):
        list(anywhere.from_collection([("to", 1)]).key_by(2).sum(1).execute_and_collect())
