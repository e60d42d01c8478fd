"""Slots and publications of a real Postgres server: who may use them, and when they are made and dropped."""

from __future__ import annotations

import pytest

from tests.integration.cdc.pipeline import Database, Pipeline, source
from tidegate.errors import ConfigError

pytestmark = pytest.mark.service


def slots(database: Database) -> int:
    return len(database.rows("select from pg_replication_slots"))


@pytest.fixture(autouse=True)
def table(database: Database) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1)")


def test_a_start_that_came_to_no_checkpoint_is_repeated(database: Database) -> None:
    for _ in range(2):
        with Pipeline(source(database)) as pipeline:
            pipeline.catch_up(database)
            assert pipeline.take() == ["+I id=1"]
            assert slots(database) == 2


def test_the_claim_is_dropped_when_a_checkpoint_is_settled(database: Database) -> None:
    with Pipeline(source(database)) as pipeline:
        pipeline.catch_up(database)
        at = pipeline.checkpoint()
        pipeline.settle(at)
        assert slots(database) == 1
    with Pipeline(source(database), at=at) as pipeline:
        database.run("insert into t values (2)")
        pipeline.catch_up(database)
        assert pipeline.take() == ["+I id=2"]
    with pytest.raises(ConfigError, match="slot 's' exists already, and this pipeline did not create it"):
        Pipeline(source(database))
    with Pipeline(source(database, slot_exists="recreate")) as pipeline:
        pipeline.catch_up(database)
        assert sorted(pipeline.take()) == ["+I id=1", "+I id=2"]


def test_a_slot_of_another_pipeline_is_refused(database: Database) -> None:
    with Pipeline(source(database)) as pipeline:
        pipeline.catch_up(database)
        with pytest.raises(ConfigError, match="this pipeline did not create it; use another name"):
            Pipeline(source(database), owner="others")
        database.run("insert into t values (2)")
        pipeline.catch_up(database)
        assert pipeline.take() == ["+I id=1", "+I id=2"]


def test_nothing_is_made_where_no_pipeline_runs(database: Database) -> None:
    with pytest.raises(
        ConfigError, match="slot 's' does not exist yet; the first start of the pipeline creates it"
    ):
        Pipeline(source(database), owner="")
    assert slots(database) == 0


def test_a_load_alone_needs_no_slot(database: Database) -> None:
    with Pipeline(source(database, start="initial-only")) as pipeline:
        pipeline.run_to_the_end()
        assert pipeline.take() == ["+I id=1"]
    assert slots(database) == 0


@pytest.mark.parametrize("published", ["insert", "insert, update", "delete, update"])
def test_a_publication_that_leaves_out_changes_is_refused(database: Database, published: str) -> None:
    database.run(f"create publication s for table t with (publish = '{published}')")
    with pytest.raises(ConfigError, match=r"leaves out insertions, updates or deletions; alter publication"):
        Pipeline(source(database))
    assert slots(database) == 0
