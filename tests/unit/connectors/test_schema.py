"""Schemas: what becomes bytes and comes back, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.common import ByteArraySchema, Encoder, Row, SimpleStringSchema
from tidegate.common.serialization import RowFieldExtractorSchema
from tidegate.errors import ConfigError, RecordError


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_texts_come_back(text: str) -> None:
    schema = SimpleStringSchema()

    assert schema.deserialize(schema.serialize(text)) == text


def test_bytes_are_left_alone() -> None:
    assert ByteArraySchema().serialize(b"\x00\xff") == b"\x00\xff"
    assert ByteArraySchema().deserialize(b"\x00\xff") == b"\x00\xff"


def test_a_field_of_a_row_is_its_bytes() -> None:
    row = Row(b"key", None)

    assert RowFieldExtractorSchema(0).serialize(row) == b"key"
    assert RowFieldExtractorSchema(1).serialize(row) == b""


def test_lines_are_what_str_shows() -> None:
    assert Encoder.simple_string_encoder("latin-1").encode(["é", 1, ("a", 2)]) == b"\xe9\n1\n('a', 2)\n"


def test_schemas_travel() -> None:
    schemas = [SimpleStringSchema(), ByteArraySchema(), RowFieldExtractorSchema(1), Encoder("latin-1")]

    assert pickle.loads(pickle.dumps(schemas)) == schemas


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: SimpleStringSchema().serialize(1),
            r"is int 1; SimpleStringSchema expected str; map it first",
        ),
        (lambda: ByteArraySchema().serialize("a"), r"is str 'a'; ByteArraySchema expected bytes"),
        (lambda: SimpleStringSchema().deserialize(b"\xff"), r"b'\\xff' is not valid UTF-8; expected what"),
        (lambda: SimpleStringSchema("ascii").serialize("é"), r"'é' cannot be written in ascii; .*use UTF-8"),
        (lambda: RowFieldExtractorSchema(2).serialize(Row(b"")), r"has no field 2; expected more fields"),
        (
            lambda: RowFieldExtractorSchema(0).serialize((b"",)),
            r"is tuple .*; RowFieldExtractorSchema expected Row",
        ),
    ],
    ids=["no text", "no bytes", "not decodable", "not encodable", "no such field", "no row"],
)
def test_a_record_that_does_not_fit_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SimpleStringSchema("utf-99"), r"charset 'utf-99' is unknown"),
        (lambda: Encoder.simple_string_encoder("utf-99"), r"charset 'utf-99' is unknown"),
        (lambda: RowFieldExtractorSchema(-1), r"field_index is -1; expected a position, 0"),
    ],
    ids=["charset", "charset of an encoder", "index"],
)
def test_a_schema_that_makes_no_sense_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()
