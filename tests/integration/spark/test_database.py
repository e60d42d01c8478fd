"""From a table of Postgres to tables of Postgres on Spark: what is there afterwards is there once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from tests.integration.connectors.test_database import PREPARED, Shop
from tidegate.connectors.database import DatabaseSource
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.testing.services import PostgresService

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.usefixtures("spark")]


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Executors cannot import test modules."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.mark.spec("003/TC-05")
def test_totals_are_updated_and_their_history_is_added_to_once_with_a_failure_before_a_commit(
    postgres: PostgresService, tmp_path: Path
) -> None:
    shop = Shop(postgres)
    shop.do("CREATE TABLE orders (id int PRIMARY KEY, customer text, amount int)")
    shop.do("INSERT INTO orders SELECT n, 'c' || n % 5, n % 7 FROM generate_series(1, 400) n")
    shop.do("CREATE TABLE totals (customer text PRIMARY KEY, amount int)")
    shop.do("CREATE TABLE history (customer text, amount int)")
    env = Env.get_execution_environment(
        {
            "execution.target": "local[2]",
            "execution.spark.epoch-records": 100,
            "execution.checkpointing.interval": "100 ms",
            "parallelism.default": 2,
            "state.checkpoints.dir": str(tmp_path / "state"),
            "pipeline.progress": "off",
            "testing.faults": "commit.before@2!raise",
            "testing.faults-dir": str(tmp_path / "witnesses"),
        }
    )
    source = DatabaseSource(
        shop.database, f"{shop.schema}.orders", ("customer", "amount"), "id", partitions=3
    )
    sums = (
        env.from_source(source).key_by(lambda row: row[0]).reduce(lambda one, two: (one[0], one[1] + two[1]))
    )
    sums.sink_to(shop.sink("totals", key=("customer",)))
    sums.sink_to(shop.sink("history", options=PREPARED))
    env.execute("totals")

    expected = shop.do("SELECT customer, sum(amount)::int FROM orders GROUP BY 1 ORDER BY 1")
    assert shop.do("SELECT * FROM totals ORDER BY 1") == expected
    assert shop.do("SELECT count(*), max(amount) FROM history") == [
        (400, max(amount for _, amount in expected))
    ]
    assert shop.do("SELECT count(*) FROM tidegate_work WHERE NOT committed") == [(0,)]
    assert list((tmp_path / "witnesses").iterdir())
