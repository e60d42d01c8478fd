"""What an input record should lead to, and what counts of a record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import ConfigError, RecordError, UserCodeError
from tidegate.runtime.audit.rule import Rule, key_of, load_function


@dataclass
class Order:
    id: int


@pytest.mark.parametrize(
    ("text", "record", "counts"),
    [
        ("id", {"id": 7, "v": 1}, 7),
        ("id", Order(7), 7),
        ("user.id, day", {"user": {"id": 7}, "day": 3}, (7, 3)),
        ("record['id'] // 2", {"id": 7}, 3),
        ("record", 7, 7),
    ],
    ids=["a field", "an attribute", "several", "an expression", "all of it"],
)
def test_a_key_is_names_or_an_expression(text: str, record: Any, counts: Any) -> None:
    assert key_of(text)(record) == counts


def test_a_key_that_is_neither_names_nor_an_expression_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^key 'id =' cannot be parsed \(.+\); expected names such as id or user.id,day"
    ):
        key_of("id =")


def test_records_are_the_same_whatever_the_order_of_their_fields() -> None:
    rule = Rule()

    assert [rule.of_output({"a": 1, "b": [2, {"d": 4, "c": 3}]})] == rule.of_input(
        {"b": [2, {"c": 3, "d": 4}], "a": 1}
    )
    assert [rule.of_output({"a": 1})] != rule.of_input({"a": "1"})
    assert [rule.of_output(b"1")] != rule.of_input("1")


def test_what_an_input_record_leads_to_is_the_functions_to_say() -> None:
    rule = Rule(lambda order: [{"id": order["id"], "part": n} for n in range(order["parts"])])

    assert rule.of_input({"id": 7, "parts": 2}) == [rule.of_output({"id": 7, "part": n}) for n in range(2)]
    assert Rule(lambda _order: None).of_input({"id": 7}) == []


@pytest.mark.parametrize(
    ("rule", "record", "error", "said"),
    [
        (
            Rule(output_key=key_of("id")),
            {"no": 1},
            RecordError,
            r"^record \{'no': 1\} has no such key \(KeyError",
        ),
        (
            Rule(),
            object(),
            RecordError,
            r"^record <object .* cannot be compared: .*; give a key with comparable fields$",
        ),
        (Rule(), "x" * 200 + "\ud800", RecordError, r"^record 'x{116}\.\.\. cannot be compared"),
    ],
    ids=["no such field", "no value of data", "no text"],
)
def test_a_record_that_cannot_be_compared_is_named(
    rule: Rule, record: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        rule.of_output(record)


def test_a_function_that_fails_or_gives_one_record_for_a_list_is_named() -> None:
    with pytest.raises(UserCodeError, match=r"^the function of --expect failed for \{'id': 7\}$") as failed:
        Rule(lambda order: order["cents"]).of_input({"id": 7})
    assert isinstance(failed.value.__cause__, KeyError)
    with pytest.raises(
        ConfigError, match=r"returned \{'id': 7\} for \{'id': 7\}; expected a list of records$"
    ):
        Rule(lambda order: order).of_input({"id": 7})


def test_a_function_is_found_in_a_file_or_a_module(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    file.write_text("def twice(record):\n    return [record, record]\n")

    assert load_function(f"{file}:twice")(1) == [1, 1]
    assert load_function("operator:neg")(1) == -1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "rules.py:twice",
            r"^function 'rules.py:twice' cannot be loaded: .*; expected <file.py or module>:<name>$",
        ),
        ("no_such_module:twice", r"^function 'no_such_module:twice' cannot be loaded: No module named"),
        ("twice", r"^function 'twice' cannot be loaded: Empty module name; expected"),
        ("operator:twice", r"^'operator' has no function 'twice'; expected a function of one input record$"),
    ],
)
def test_a_function_that_is_not_there_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_function(text)
