"""The files of a canonical savepoint in a database that knows nothing of us."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tidegate.common import Types
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.state_writer import StateWriter

TOTAL = ValueStateDescriptor("total", Types.LONG())
PAIR = ValueStateDescriptor("pair", Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
EXACT = ValueStateDescriptor("exact")
SEEN = ListStateDescriptor("seen", Types.STRING())
RATES = MapStateDescriptor("rates", Types.STRING(), Types.DOUBLE())


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    writer = StateWriter().put("accounts", TOTAL, [("ann", 520), ("bob", 700)])
    writer.put("accounts", PAIR, [("ann", ("eur", 0.5))]).put("accounts", EXACT, [("bob", Decimal("1.10"))])
    writer.put("accounts", SEEN, [("ann", ["p1", "p2"])]).put("accounts", RATES, [("ann", {"eur": 1.0})])
    writer.write(tmp_path / "savepoint")
    return tmp_path / "savepoint" / "keyed" / "operator=accounts"


def rows(folder: Path, columns: str, where: str = "true") -> list[Any]:
    with duckdb.connect() as database:
        query = f"SELECT {columns} FROM read_parquet('{folder}/*.parquet') WHERE {where} ORDER BY ALL"
        return database.sql(query).fetchall()


def test_columns_have_the_types_of_their_values(savepoint: Path) -> None:
    assert rows(savepoint / "state=total", "key, value, typeof(value)") == [
        ("ann", 520, "BIGINT"),
        ("bob", 700, "BIGINT"),
    ]
    assert rows(savepoint / "state=pair", "key, value.f0, value.f1") == [("ann", "eur", 0.5)]
    assert rows(savepoint / "state=seen", "position, value") == [(0, "p1"), (1, "p2")]
    assert rows(savepoint / "state=rates", "key, map_key, value") == [("ann", "eur", 1.0)]
    assert rows(savepoint / "state=exact", "key, typeof(value)") == [("bob", "BLOB")]
    assert rows(savepoint / "timers=event", "key, namespace, time") == []


def test_states_are_joined_and_filtered(savepoint: Path) -> None:
    with duckdb.connect() as database:
        found = database.sql(
            f"SELECT t.key, t.value, count(*) FROM read_parquet('{savepoint}/state=total/*.parquet') t "
            f"JOIN read_parquet('{savepoint}/state=seen/*.parquet') s ON t.key = s.key GROUP BY ALL"
        ).fetchall()
    assert found == [("ann", 520, 2)]
    assert rows(savepoint / "state=total", "key", "value > 600") == [("bob",)]


class Remember(KeyedProcessFunction):
    """Keeps the newest value and a timer far away."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: tuple[str, int], ctx: Any) -> None:
        self.total.update(value[1])
        ctx.timer_service().register_processing_time_timer(2**50 + value[1])


def test_all_files_of_a_jobs_savepoint_are_one_table(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": 3,
            "state.checkpoints.dir": str(tmp_path / "state"),
        }
    )
    events = [(f"user-{number}", number) for number in range(100)]
    env.from_collection(events).key_by(lambda pair: pair[0]).process(Remember()).uid("users").print()
    result = env.execute("users")
    StateWriter(tmp_path / "state" / result.run / f"chk-{result.checkpoint}").write(tmp_path / "savepoint")
    folder = tmp_path / "savepoint" / "keyed" / "operator=users"

    assert len(list((folder / "state=total").iterdir())) == 3
    assert sorted(rows(folder / "state=total", "key, value")) == sorted(events)
    assert rows(folder / "timers=processing", "count(*), min(time)") == [(100, 2**50)]
