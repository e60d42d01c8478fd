"""Which changes steps emit and take, found when a program is planned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tidegate.changelog import ChangelogMode
from tidegate.common import Row, RowKind, Time, Types
from tidegate.connectors.collection import CollectionSource, CollectSink
from tidegate.connectors.hybrid import HybridSource
from tidegate.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, PlainKafkaSink
from tidegate.connectors.print import PrintSink
from tidegate.connectors.spi import SupportsRowKinds
from tidegate.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from tidegate.datastream.window import TumblingProcessingTimeWindows
from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid
from tidegate.runtime.graph.changelogs import Changelog
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions

CHANGES = [Row.of_kind(RowKind.INSERT, 1), Row.of_kind(RowKind.DELETE, 1)]
DELETES = ChangelogMode.of({RowKind.INSERT, RowKind.DELETE})
INSERTS = ChangelogMode.insert_only()
SAME = Expressions((Branch(), Branch(tag=OutputTag("copies"))))


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})


def mode(stream: DataStream) -> Changelog:
    step = stream._transformation
    step.uid = "asked"
    return build_stream_graph([step], parallelism=1).nodes[OperatorUid("asked")].changelog


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([1, 2], INSERTS),
        ([Row(1)], INSERTS),
        (CHANGES, DELETES),
        ([Row.of_kind(RowKind.UPDATE_BEFORE, 1)], ChangelogMode.of({RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER})),
    ],
)  # fmt: skip
def test_a_collection_states_the_kinds_of_its_rows(items: list[object], expected: ChangelogMode) -> None:
    assert CollectionSource(items).changelog_mode == expected


def test_a_hybrid_source_states_the_kinds_of_all_its_stages(env: StreamExecutionEnvironment) -> None:
    inserts, changes = CollectionSource([Row(1)]), CollectionSource(CHANGES)
    united = HybridSource((inserts, changes))

    assert HybridSource((inserts, lambda end: changes)).changelog_mode == INSERTS
    assert united.changelog_mode == DELETES
    env.from_source(united).key_by(lambda row: row[0]).reduce(lambda first, second: second).print()
    with pytest.raises(ConfigError, match=r"operator 'reduce.* accepts insertions only; got changes \[I,D\]"):
        env.explain()


def test_changes_pass_steps_that_emit_what_they_get(env: StreamExecutionEnvironment) -> None:
    changes, inserts = env.from_collection(CHANGES), env.from_collection([Row(1)])
    united = inserts.union(changes.filter(bool)).transform("same", EXPRESSIONS, SAME)

    assert mode(inserts.filter(bool)) == INSERTS
    assert mode(united.rebalance().filter(bool)) == DELETES
    copies = united.get_side_output(OutputTag("copies", Types.INT()))
    assert mode(copies) == DELETES


def test_what_a_function_emits_is_unknown_unless_its_type_has_no_rows(
    env: StreamExecutionEnvironment,
) -> None:
    changes = env.from_collection(CHANGES)

    assert mode(changes.map(lambda row: row)) is None
    assert mode(changes.map(lambda row: row, Types.ROW([Types.INT()]))) is None
    assert mode(changes.map(lambda row: row[0], Types.INT())) == INSERTS
    assert mode(changes.map(lambda row: row[0]).union(changes).filter(bool)) == DELETES
    assert mode(changes.map(lambda row: row[0]).filter(bool)) is None


@pytest.mark.parametrize("step", ["reduce", "window", "sum"])
def test_a_step_that_takes_insertions_only_is_refused_behind_changes(
    env: StreamExecutionEnvironment, step: str
) -> None:
    def aggregate(stream: DataStream) -> None:
        keyed = stream.key_by(lambda row: row[0])
        match step:
            case "reduce":
                ended = keyed.reduce(lambda first, second: second)
            case "sum":
                ended = keyed.sum(0)
            case _:
                windows = keyed.window(TumblingProcessingTimeWindows.of(Time.seconds(1)))
                ended = windows.reduce(lambda first, second: second)
        ended.print()

    aggregate(env.from_collection(CHANGES).map(lambda row: row))
    env.explain()
    aggregate(env.from_collection(CHANGES).uid("changes").filter(bool))

    with pytest.raises(
        ConfigError,
        match=rf"operator '{step}.* accepts insertions only; got changes \[I,D\] from 'collection' \(uid 'changes'\); map changes",
    ):
        env.explain()


@dataclass(frozen=True)
class Numbers(CollectionSource):
    """Numbers that are changes."""

    def __init__(self) -> None:
        super().__init__([1, 2], Types.INT())
        object.__setattr__(self, "changelog_mode", DELETES)


def test_a_function_is_refused_behind_changes_that_are_no_rows(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_source(Numbers(), type_info=Types.INT())
    numbers.transform("same", EXPRESSIONS, SAME, Types.INT()).print()
    env.explain()

    numbers.map(str).print()

    with pytest.raises(
        ConfigError, match=r"'map' .* accepts changes of rows only, not of .*; got changes \[I,D\]"
    ):
        env.explain()


def test_sinks_state_what_they_can_write(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    env.from_source(Numbers(), type_info=Types.INT()).sink_to(CollectSink(str(tmp_path)))

    with pytest.raises(ConfigError, match=r"'sink' .* accepts changes of rows only.*map changes to rows"):
        env.explain()
    assert not isinstance(PrintSink(), SupportsRowKinds)


@pytest.mark.parametrize(("upsert", "expected"), [(True, "any"), (False, "rows")])
def test_a_kafka_sink_writes_changes_that_are_no_rows_only_as_upserts(upsert: bool, expected: str) -> None:
    schema = KafkaRecordSerializationSchema("topic", key=str.encode, upsert=upsert)
    for sink in (KafkaSink("host:1", schema), PlainKafkaSink("host:1", schema)):
        assert isinstance(sink, SupportsRowKinds)
        assert sink.takes == expected


def test_explain_shows_changes(env: StreamExecutionEnvironment) -> None:
    env.from_collection(CHANGES).filter(bool).map(lambda row: row).print()
    inserts = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    inserts.from_collection([1]).filter(bool).print()

    shown = env.explain().splitlines()

    assert [line.strip().rpartition("uid ")[2] for line in shown if "emits" in line] == [
        "collection-1, emits [I,D]",
        "filter-1, emits [I,D]",
    ]
    assert "emits" not in inserts.explain()
