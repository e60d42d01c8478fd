from __future__ import annotations

import pytest

from tidegate import faults
from tidegate.connectors.generator.rows import GeneratorRows
from tidegate.connectors.kafka.rows import KafkaRows
from tidegate.errors import ConfigError
from tidegate.runtime.spark.datasource.settings import Settings, row_sink, row_source, split, storage_of


def test_our_options_and_the_connectors_are_told_apart_in_any_case() -> None:
    common, rest = split(
        {"Connector": "kafka", "checkpointLocation": "/x", "subscribe": "A", "ATTEMPTS": "3"}
    )
    assert (common.connector, common.checkpoint, common.attempts) == ("kafka", "/x", 3)
    assert rest == {"subscribe": "A"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^the data source has no connector; expected one, such as \.option\('connector', 'kafka'\)$"),
        ({"connector": "kafka", "attempts": "0"}, r"^option attempts is 0; expected at least 1$"),
        (
            {"connector": "kafka", "maxrecordspertrigger": "0"},
            r"^option maxRecordsPerTrigger is 0; expected at least 1$",
        ),
        (
            {"connector": "kafka", "accept_loss": "x"},
            r"^option 'accept_loss' in the options has an invalid value; got 'x'",
        ),
    ],
    ids=["none", "attempts", "most", "number"],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split(options)


def test_connectors_are_found_by_name() -> None:
    assert isinstance(row_source(Settings("kafka")), KafkaRows)
    assert isinstance(row_sink(Settings("kafka")), KafkaRows)
    assert isinstance(row_source(Settings("generator")), GeneratorRows)


def test_a_connector_that_cannot_do_it_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"^connector 'generator' cannot be written as a table; it is only read$"
    ):
        row_sink(Settings("generator"))
    with pytest.raises(
        ConfigError, match=r"^no connector of tables and streams is called 'kafca'; did you mean 'kafka'$"
    ):
        row_source(Settings("kafca"))


@pytest.mark.parametrize("name", ["print", "socket", "hybrid"])
def test_a_connector_without_rows_says_where_it_works(name: str) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"^connector '{name}' works only in tidegate programs: .* of Spark have .*files, generator, kafka",
    ):
        row_source(Settings(name))


def test_a_connector_that_is_only_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(KafkaRows, "source")
    with pytest.raises(
        ConfigError, match=r"^connector 'kafka' cannot be read as a table; it is only written$"
    ):
        row_source(Settings("kafka"))


@pytest.mark.parametrize(
    ("checkpoint", "url"),
    [
        ("/state/orders", "file:///state/orders/tidegate"),
        ("file:/state/orders", "file:///state/orders/tidegate"),
        ("file:///state/a%20b", "file:///state/a%20b/tidegate"),
        ("s3a://state/orders", "s3://state/orders/tidegate"),
    ],
)
def test_decisions_are_kept_beside_sparks_checkpoints(checkpoint: str, url: str) -> None:
    assert storage_of(Settings("kafka", checkpoint=checkpoint)).url == url


def test_decisions_are_kept_where_the_option_says() -> None:
    assert (
        storage_of(Settings("kafka", decisions="s3://else/where", checkpoint="hdfs://n/x")).url
        == "s3://else/where"
    )


def test_a_place_that_cannot_decide_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^checkpointLocation 'hdfs://n/x' is on a system that cannot keep decisions;"
    ):
        storage_of(Settings("kafka", checkpoint="hdfs://n/x"))
    with pytest.raises(
        ConfigError, match=r"^a sink stores its decisions next to Spark's checkpoints, but their"
    ):
        storage_of(Settings("kafka"))


def test_a_test_may_let_processes_die(tmp_path_factory: pytest.TempPathFactory) -> None:
    witnesses = tmp_path_factory.mktemp("witnesses")
    Settings("kafka", faults="driver/commit.before!raise", faults_dir=str(witnesses)).arm("driver")
    with pytest.raises(faults.InjectedFaultError):
        faults.point("commit.before")
    faults.disarm()
    Settings("kafka").arm("driver")
    faults.point("commit.before")
