"""What a schema registry may answer, and what becomes of it; a real one is asked in the integration tests."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import duration_pb2, type_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto

from tests.unit.connectors.registry_double import Answers, answering
from tests.unit.connectors.test_kafka_reader import Client, Fake, positions, reading
from tidegate.connectors.formats import RegistryAvro, RegistryJson, RegistryProtobuf, SchemaRegistry
from tidegate.connectors.formats._client import protobuf_file
from tidegate.connectors.formats.framing import framed
from tidegate.connectors.kafka.serde import SchemaValues
from tidegate.elements import Batch
from tidegate.errors import ConfigError, RecordError, UnavailableError

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture
def answers() -> Iterator[Answers]:
    with answering() as answers:
        yield answers


def registry(answers: Answers, **more: Any) -> SchemaRegistry:
    return SchemaRegistry(answers.url, **more)


def test_a_schema_is_asked_for_once_however_many_messages_and_formats_use_it(answers: Answers) -> None:
    answers.given["/schemas/ids/3"] = (200, {"schema": ORDER})
    message = framed(3) + b"\x0e"
    for _ in range(3):
        assert RegistryAvro(registry(answers)).deserialize(message) == {"id": 7}
    assert [path for path, _ in answers.asked] == ["/schemas/ids/3"]


def test_a_tombstone_is_none() -> None:
    assert RegistryAvro(SchemaRegistry("http://nowhere")).deserialize(None) is None


def test_a_schema_that_is_not_there_is_named(answers: Answers) -> None:
    with pytest.raises(
        RecordError, match=rf"^schema 9 is not in the registry {answers.url}; expected the registry"
    ):
        RegistryAvro(registry(answers)).deserialize(framed(9))


def test_a_schema_of_another_format_is_refused(answers: Answers) -> None:
    answers.given["/schemas/ids/1"] = (200, {"schema": "{}", "schemaType": "JSON"})
    with pytest.raises(RecordError, match=r"^schema 1 is JSON; expected AVRO; read it with another format$"):
        RegistryAvro(registry(answers)).deserialize(framed(1))


def test_what_avro_does_not_understand_is_refused_whole(answers: Answers) -> None:
    answers.given["/schemas/ids/3"] = (200, {"schema": ORDER})
    schema = RegistryAvro(registry(answers))
    with pytest.raises(RecordError, match=r"^the message does not match schema 3, or does not match"):
        schema.deserialize(framed(3))
    with pytest.raises(RecordError, match="2 trailing bytes"):
        schema.deserialize(framed(3) + b"\x0e\0\0")


def test_a_message_of_an_older_schema_is_made_to_fit_or_refused(answers: Answers) -> None:
    answers.given["/schemas/ids/3"] = (200, {"schema": ORDER})
    newer = {"type": "record", "name": "Order", "fields": [{"name": "user", "type": "string"}]}
    with pytest.raises(RecordError, match=r"does not match the schema of the program: SchemaResolutionError"):
        RegistryAvro(registry(answers), json.dumps(newer)).deserialize(framed(3) + b"\x0e")
    newer["fields"] = [{"name": "user", "type": "string", "default": "ada"}]
    assert RegistryAvro(registry(answers), json.dumps(newer)).deserialize(framed(3) + b"\x0e") == {
        "user": "ada"
    }


def test_schemas_that_a_schema_builds_upon_are_fetched(answers: Answers) -> None:
    user = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "User"}]}
    reference = {"name": "User", "subject": "user", "version": 1}
    answers.given["/schemas/ids/4"] = (200, {"schema": json.dumps(order), "references": [reference]})
    answers.given["/subjects/user/versions/1"] = (200, {"schema": json.dumps(user)})
    assert RegistryAvro(registry(answers)).deserialize(framed(4) + b"\x06ada") == {"by": {"name": "ada"}}
    del answers.given["/subjects/user/versions/1"]
    with pytest.raises(
        RecordError, match=r"^version 1 of subject 'user' is not in the registry .* as 'User'$"
    ):
        RegistryAvro(registry(answers, username="somebody new")).deserialize(framed(4) + b"\x06ada")


def test_json_schemas_may_refer_to_others(answers: Answers) -> None:
    order = {"type": "object", "properties": {"by": {"$ref": "user.json"}}}
    reference = {"name": "user.json", "subject": "user", "version": 2}
    described = {"schema": json.dumps(order), "schemaType": "JSON", "references": [reference]}
    answers.given["/schemas/ids/4"] = (200, described)
    answers.given["/subjects/user/versions/2"] = (200, {"schema": '{"type": "string"}', "schemaType": "JSON"})
    schema = RegistryJson(registry(answers))
    assert schema.deserialize(framed(4) + b'{"by":"ada"}') == {"by": "ada"}
    with pytest.raises(RecordError, match=r"data.by must be string"):
        schema.deserialize(framed(4) + b'{"by":1}')
    answers.given["/schemas/ids/5"] = (200, {"schema": json.dumps(order), "schemaType": "JSON"})
    with pytest.raises(ConfigError, match=r"refers to 'user.json', which is not among its references$"):
        schema.deserialize(framed(5) + b"{}")


def test_values_of_json_have_the_type_that_is_asked_for(answers: Answers) -> None:
    answers.given["/schemas/ids/1"] = (200, {"schema": "{}", "schemaType": "JSON"})
    schema = RegistryJson(registry(answers), type=dict[str, int])
    assert schema.deserialize(framed(1) + b'{"a":1}') == {"a": 1}
    with pytest.raises(RecordError, match="Expected `int`, got `str`"):
        schema.deserialize(framed(1) + b'{"a":"1"}')


def test_a_subject_without_the_schema_is_named_if_nothing_may_be_registered(answers: Answers) -> None:
    schema = RegistryAvro(registry(answers), ORDER, subject="orders/eu-value", register=False)
    with pytest.raises(
        ConfigError,
        match=r"subject 'orders/eu-value' does not have the schema; register it first, .*: not found$",
    ):
        schema.serialize({"id": 1})
    assert answers.asked[0][0] == "/subjects/orders%2Feu-value"


@pytest.mark.parametrize(
    ("status", "words"),
    [(409, "has schemas that are incompatible with this one"), (422, "rejects the schema as invalid")],
    ids=["incompatible", "no schema"],
)
def test_a_schema_that_a_subject_does_not_take_is_refused(answers: Answers, status: int, words: str) -> None:
    said = {"error_code": status, "message": "field id"}
    answers.given["/subjects/orders-value/versions"] = (status, said)
    with pytest.raises(
        ConfigError, match=rf"^schema registry {answers.url}: subject 'orders-value' {words}: field id$"
    ):
        RegistryAvro(registry(answers), ORDER, subject="orders-value").serialize({"id": 1})


def test_a_schema_that_somebody_else_adds_at_this_moment_is_asked_for_again(answers: Answers) -> None:
    answers.once["/subjects/orders-value/versions"] = (409, {"error_code": 409, "message": "already exists"})
    answers.given["/subjects/orders-value/versions"] = (200, {"id": 7})

    framed = RegistryAvro(registry(answers), ORDER, subject="orders-value").serialize({"id": 1})

    assert int.from_bytes(framed[1:5], "big") == 7


def test_records_that_do_not_fit_their_schema_are_refused(answers: Answers) -> None:
    answers.given["/subjects/s/versions"] = (200, {"id": 1})
    for schema, record in (
        (RegistryAvro(registry(answers), ORDER, subject="s"), {"id": 1, "more": 2}),
        (RegistryAvro(registry(answers), ORDER, subject="s"), {"id": "1"}),
        (RegistryJson(registry(answers), '{"type": "string"}', subject="s"), 5),
        (RegistryProtobuf(registry(answers), type_pb2.Field, subject="s"), duration_pb2.Duration()),
    ):
        with pytest.raises(RecordError, match=r"^record .* does not match the schema of subject 's': \w+: "):
            schema.serialize(record)


def test_writing_needs_a_subject_and_a_schema() -> None:
    nowhere = SchemaRegistry("http://nowhere")
    with pytest.raises(
        ConfigError, match=r"^RegistryAvro has no subject to write to; expected, for example,"
    ):
        RegistryAvro(nowhere, ORDER).serialize({})
    with pytest.raises(ConfigError, match=r"^RegistryAvro has no writer schema; expected JSON"):
        RegistryAvro(nowhere, subject="s").serialize({})
    with pytest.raises(ConfigError, match=r"^RegistryJson has no writer schema; expected JSON"):
        RegistryJson(nowhere, subject="s").serialize({})
    with pytest.raises(ConfigError, match=r"^RegistryProtobuf needs a generated message class; got"):
        RegistryProtobuf(nowhere, dict)


def test_what_is_no_schema_is_refused_with_its_beginning() -> None:
    nowhere = SchemaRegistry("http://nowhere")
    for text in ("{", '{"type": "strange"}', '{"type": "record"}'):
        with pytest.raises(ConfigError, match=r"^invalid Avro schema .* \(.*\); expected JSON$"):
            RegistryAvro(nowhere, text, subject="s").serialize({})
    for text in ("{", '{"type": 5}'):
        with pytest.raises(ConfigError, match=r"^invalid JSON schema .* \(.*\); expected JSON$"):
            RegistryJson(nowhere, text, subject="s").serialize({})


def test_logins_are_sent_and_refused_ones_are_named_without_their_secret(answers: Answers) -> None:
    answers.given["/schemas/ids/1"] = (401, {})
    for login, sent in (
        ({"username": "ada", "password": "secret"}, "Basic YWRhOnNlY3JldA=="),
        ({"token": "secret"}, "Bearer secret"),
    ):
        where = registry(answers, **login)
        with pytest.raises(
            ConfigError, match=r"refused the credentials \(status 401\); check its login$"
        ) as caught:
            RegistryAvro(where).deserialize(framed(1))
        assert answers.asked[-1][1] == sent
        assert "secret" not in f"{where!r} {caught.value}"


HTML = b"<html>not found</html>"
OUTAGES: dict[str, tuple[int, Any]] = {
    "a proxy that does not find the registry": (404, HTML),
    "a path that the registry does not have": (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
    "another server that finds nothing": (404, {"message": "not found"}),
    "an answer of a list": (404, [40403]),
    "a conflict of nothing": (409, {"error_code": 409, "message": "conflict"}),
    "a proxy without a registry": (502, b"bad gateway"),
    "a registry that starts": (503, {"error_code": 50301, "message": "busy"}),
    "a page": (200, HTML),
    "an answer without a schema": (200, {"id": 1}),
    "a schema that is no text": (200, {"schema": 1}),
    "an answer that is empty": (200, b""),
}
"""What may come from where a registry is expected, none of which says anything of a schema."""


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_registry_in_trouble_is_no_fault_of_the_message(answers: Answers, outage: str) -> None:
    status, body = answers.given["/schemas/ids/1"] = OUTAGES[outage]
    said = re.escape(repr(body if isinstance(body, bytes) else json.dumps(body).encode()))

    with pytest.raises(
        UnavailableError,
        match=rf"^schema registry {answers.url} answered /schemas/ids/1 with status {status}: {said} \(.*\); check that it is running",
    ):
        RegistryAvro(registry(answers)).deserialize(framed(1))


@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("on_error", ["skip", "dead_letter"])
def test_no_message_is_left_out_while_a_registry_is_in_trouble(
    answers: Answers, outage: str, on_error: str
) -> None:
    answers.given["/schemas/ids/1"] = OUTAGES[outage]
    answers.given["/schemas/ids/2"] = (200, {"schema": ORDER})
    messages = [Fake(0, framed(2) + b"\x0e"), Fake(1, framed(1) + b"\x0e"), Fake(2, framed(2) + b"\x0e")]
    reader = reading(Client(messages), SchemaValues(RegistryAvro(registry(answers))), on_error=on_error)

    with pytest.raises(UnavailableError):
        reader.poll(10)

    assert (reader.skipped, reader.letters, positions(reader)["orders:0"]) == (0, 0, 0)


def test_a_message_whose_schema_the_registry_does_not_know_is_left_out_if_told_so(answers: Answers) -> None:
    answers.given["/schemas/ids/2"] = (200, {"schema": ORDER})
    messages = [Fake(0, framed(9) + b"\x0e"), Fake(1, framed(2) + b"\x0e")]
    reader = reading(Client(messages), SchemaValues(RegistryAvro(registry(answers))), on_error="skip")

    batch = reader.poll(10)

    assert isinstance(batch, Batch)
    assert (batch.values, reader.skipped) == ([{"id": 7}], 1)


@pytest.mark.parametrize("code", [40401, 40402, 40403])
def test_only_what_the_registry_itself_does_not_find_is_about_the_message(
    answers: Answers, code: int
) -> None:
    answers.given["/schemas/ids/1"] = (404, {"error_code": code, "message": "not found"})

    with pytest.raises(RecordError, match=r"^schema 1 is not in the registry"):
        RegistryAvro(registry(answers)).deserialize(framed(1))


@pytest.mark.parametrize(
    "outage", sorted(set(OUTAGES) - {"a conflict of nothing", "an answer without a schema"})
)
def test_a_registry_in_trouble_is_no_fault_of_a_subject(answers: Answers, outage: str) -> None:
    answers.given["/subjects/s/versions"] = OUTAGES[outage]

    with pytest.raises(
        UnavailableError, match=rf"^schema registry {answers.url} answered /subjects/s/versions"
    ):
        RegistryAvro(registry(answers), ORDER, subject="s").serialize({"id": 1})


def test_no_more_of_an_answer_is_shown_than_a_message_can_bear(answers: Answers) -> None:
    answers.given["/schemas/ids/1"] = (502, b"x" * 100_000)
    with pytest.raises(UnavailableError) as caught:
        RegistryAvro(registry(answers)).deserialize(framed(1))
    assert len(str(caught.value)) < 500


def test_a_registry_that_is_not_there_is_named() -> None:
    with pytest.raises(UnavailableError, match=r"^no answer from schema registry http://127.0.0.1:1 \("):
        RegistryAvro(SchemaRegistry("http://127.0.0.1:1")).deserialize(framed(1))


def test_where_a_registry_is_has_to_make_sense(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^schema registry url is 'localhost:8081'; expected, for example, "
    ):
        SchemaRegistry("localhost:8081")
    for url in ("http://ada:secret@localhost:8081", "https://secret@localhost", "ada:secret@localhost:8081"):
        with pytest.raises(ConfigError, match=r"^schema registry url (is )?'.*\*\*\*@localhost") as caught:
            SchemaRegistry(url)
        assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"^schema registry timeout_ms is 0; expected at least 1$"):
        SchemaRegistry("http://localhost", timeout_ms=0)
    missing = str(tmp_path / "no.pem")
    for registry in (
        SchemaRegistry("https://localhost", ca_location=missing),
        SchemaRegistry("https://localhost", certificate_location=missing),
    ):
        with pytest.raises(ConfigError, match="a certificate cannot be read"):
            registry.client()


def test_formats_travel_to_other_processes() -> None:
    where = SchemaRegistry("http://nowhere", username="ada", password="secret")
    for schema in (
        RegistryAvro(where, ORDER, subject="s", register=False),
        RegistryJson(where, "{}", dict[str, int], subject="s"),
        RegistryProtobuf(where, type_pb2.Field, subject="s"),
    ):
        copy = pickle.loads(pickle.dumps(schema))
        assert vars(copy) == vars(schema)


def test_a_nested_message_type_is_found_in_its_file() -> None:
    _, path = protobuf_file(DescriptorProto.ExtensionRange)
    assert path == (2, 0)
    with pytest.raises(ConfigError, match=r"imports other.proto; expected all types in one file"):
        protobuf_file(importing_another())


def importing_another() -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()
    pool.Add(FileDescriptorProto(name="other.proto"))
    mine = FileDescriptorProto(name="mine.proto", dependency=["other.proto"])
    mine.message_type.add(name="Mine")
    pool.Add(mine)
    return GetMessageClass(pool.FindMessageTypeByName("Mine"))
