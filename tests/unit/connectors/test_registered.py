"""Connectors are found by the names they are registered under, as those of other distributions are."""

from __future__ import annotations

import pytest

from tidegate import registry
from tidegate.connectors.collection import CollectionSource, CollectSink, read_collected
from tidegate.connectors.files import FileSink, TextFileSource
from tidegate.connectors.functions import FunctionSource, as_sink
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.kafka import KafkaSink, KafkaSource
from tidegate.connectors.print import PrintSink
from tidegate.connectors.socket import SocketTextSource


@pytest.mark.parametrize(
    ("name", "connector"),
    [
        ("collection.source", CollectionSource),
        ("collection.sink", CollectSink),
        ("collection.read", read_collected),
        ("generator.source", GeneratorSource),
        ("print.sink", PrintSink),
        ("files.sink", FileSink),
        ("files.source", TextFileSource),
        ("functions.source", FunctionSource),
        ("functions.sink", as_sink),
        ("kafka.sink", KafkaSink),
        ("kafka.source", KafkaSource),
        ("socket.source", SocketTextSource),
    ],
)
def test_a_connector_is_found_by_its_name(name: str, connector: object) -> None:
    assert registry.load("tidegate.connectors", name) is connector
