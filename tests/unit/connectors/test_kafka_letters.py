"""What a sink makes of changes and of records that cannot be messages, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest

from tidegate.connectors.base.dead_letters import DeadLetter, DeadLetterLines
from tidegate.connectors.collection import CollectSink
from tidegate.connectors.formats import SerializationSchema
from tidegate.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSinkOptions,
    KafkaSource,
    KafkaSourceOptions,
    PlainKafkaSink,
    to_json,
)
from tidegate.connectors.kafka.refused import Policy
from tidegate.connectors.kafka.writer import Outlet
from tidegate.connectors.spi import SupportsDeadLetters
from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError, RecordError, UnavailableError
from tidegate.row import Row, kinds_of
from tidegate.twophase.spi import WriterContext

SETTINGS = {"bootstrap.servers": "b:1"}
UPSERT = KafkaRecordSerializationSchema("totals", to_json, itemgetter("user"), upsert=True)
CHANGES = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]


def outlet(
    writer_context: Callable[..., WriterContext], schema: KafkaRecordSerializationSchema, policy: Policy
) -> Outlet:
    return Outlet(schema, SETTINGS, policy, writer_context())


def written(opened: Outlet, batch: Batch) -> list[Any]:
    return opened.kept(opened.encoded(batch)).rows()


def dividing(number: int) -> bytes:
    return b"%d" % (12 // number)


def test_dead_letters_go_beside_the_messages_in_order(writer_context: Callable[..., WriterContext]) -> None:
    opened = outlet(writer_context, KafkaRecordSerializationSchema("t", dividing), ("dead_letter", "dead"))
    first, (topic, value, key, _, headers), third = written(opened, Batch([1, 0, 3]))
    assert (first[:2], third[:2]) == (("t", b"12"), ("t", b"4"))
    assert (topic, value, key) == ("dead", b"0", None)
    said = dict(headers)
    assert said["dead-letter.error"].startswith(b"RecordError: kafka sink: cannot make the value of record 0")
    assert (said["dead-letter.pipeline"], said["dead-letter.operator"]) == (b"orders", b"sink")
    assert (opened.refused.letters, opened.refused.skipped) == (1, 0)


@pytest.mark.parametrize(
    ("record", "value", "form"),
    [({1j: "x"}, b"{1j: 'x'}", b"repr"), ("x" * 2_000, b'"' + b"x" * 487, b"cut")],
    ids=["a record without JSON", "a record that is too large"],
)
def test_a_dead_letter_says_in_which_form_the_record_is(
    writer_context: Callable[..., WriterContext], record: Any, value: bytes, form: bytes
) -> None:
    schema = KafkaRecordSerializationSchema("t")
    opened = Outlet(
        schema, {**SETTINGS, "message.max.bytes": 1_000}, ("dead_letter", "dead"), writer_context()
    )
    ((_, found, _, _, headers),) = written(opened, Batch([record]))
    assert (found, dict(headers)["dead-letter.form"]) == (value, form)


def test_records_that_cannot_be_messages_are_skipped_and_counted(
    writer_context: Callable[..., WriterContext],
) -> None:
    opened = outlet(writer_context, KafkaRecordSerializationSchema("t", dividing), ("skip", None))
    encoded = opened.kept(opened.encoded(Batch([0, 3, 0], [5, 6, 7])))
    assert ([message[1] for message in encoded.values], encoded.timestamps) == ([b"4"], [6])
    assert opened.refused.skipped == 2


class Away(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        raise UnavailableError("the registry is away")


def test_a_registry_in_trouble_loses_no_record(writer_context: Callable[..., WriterContext]) -> None:
    opened = outlet(writer_context, KafkaRecordSerializationSchema("t", Away()), ("skip", None))
    with pytest.raises(UnavailableError, match=r"^the registry is away$"):
        opened.encoded(Batch([1]))


def test_changes_become_the_newest_message_of_their_key(writer_context: Callable[..., WriterContext]) -> None:
    opened = outlet(writer_context, UPSERT, ("fail", None))
    values = [{"user": b"ada", "sum": number} for number in range(4)]
    assert [message[1:3] for message in written(opened, Batch(values, kinds=CHANGES))] == [
        (b'{"user":"YWRh","sum":0}', b"ada"),
        (b'{"user":"YWRh","sum":2}', b"ada"),
        (None, b"ada"),
    ]
    appending = outlet(writer_context, KafkaRecordSerializationSchema("t"), ("fail", None))
    with pytest.raises(
        RecordError,
        match=r"^kafka sink: the kind of a change would be lost; got .* as UPDATE_BEFORE; .* schema be one with upsert",
    ):
        appending.encoded(Batch(values, kinds=CHANGES))


def test_rows_are_the_changes_that_their_column_says(writer_context: Callable[..., WriterContext]) -> None:
    schema = KafkaRecordSerializationSchema("t", itemgetter(1), itemgetter(0), upsert=True)
    rows = [Row.of_kind(kind, b"ada", b"%d" % number) for number, kind in enumerate(CHANGES)]
    opened = outlet(writer_context, schema, ("fail", None))
    assert [message[1] for message in written(opened, Batch(rows, kinds=kinds_of(rows)))] == [
        b"0",
        b"2",
        None,
    ]
    assert [message[1] for message in written(opened, Batch(rows))] == [b"0", b"1", b"2", b"3"]
    alone = [message and message[1] for message in map(opened.encode, rows)]
    assert alone == [b"0", None, b"2", None]
    appending = KafkaRecordSerializationSchema("t", itemgetter(1))
    passed = written(outlet(writer_context, appending, ("fail", None)), Batch(rows, kinds=kinds_of(rows)))
    assert [message[1] for message in passed] == [b"0", b"1", b"2", b"3"]


def test_upserts_need_a_key() -> None:
    with pytest.raises(
        ConfigError, match=r"^kafka sink with upsert has no key; set the key by which a later message"
    ):
        KafkaRecordSerializationSchema("totals", upsert=True)


def test_dead_letters_need_a_place_and_a_place_needs_dead_letters() -> None:
    place = CollectSink("/nowhere")
    source = KafkaSource(
        "b:1", ("orders",), options=KafkaSourceOptions(on_error="dead_letter"), dead_letters=place
    )
    assert isinstance(source, SupportsDeadLetters)
    with pytest.raises(
        ConfigError,
        match=r"^kafka source on_error is 'dead_letter', but no target is set; set dead_letters",
    ):
        KafkaSource("b:1", ("orders",), options=KafkaSourceOptions(on_error="dead_letter"))
    with pytest.raises(
        ConfigError,
        match=r"^kafka source has dead_letters, but on_error is 'fail', so no dead letters are written",
    ):
        KafkaSource("b:1", ("orders",), dead_letters=place)
    with pytest.raises(ConfigError, match=r"^kafka sink on_error is 'dead_letter', but no target is set"):
        KafkaSinkOptions(on_error="dead_letter")
    with pytest.raises(ConfigError, match=r"^kafka sink has dead_letters, but on_error is 'skip'"):
        KafkaSinkOptions(on_error="skip", dead_letters="dead")
    with pytest.raises(
        ConfigError, match=r"^plain kafka sink on_error is 'x'; expected one of fail, skip, dead_letter$"
    ):
        PlainKafkaSink("b:1", KafkaRecordSerializationSchema("t"), on_error="x")  # type: ignore[arg-type] # on purpose


def test_dead_letters_are_written_to_files_as_json() -> None:
    letter = DeadLetter(b"{", "truncated", "billing", "orders", (("offset", "7"),), None, (("trace", b"7"),))
    assert DeadLetterLines().encode([letter]) == (
        b'{"value":"ew==","error":"truncated","pipeline":"billing","operator":"orders","place":[["offset","7"]],'
        b'"key":null,"headers":[["trace","Nw=="]]}\n'
    )
