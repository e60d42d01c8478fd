"""Settings as texts by key, read as one type or another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.common import ConfigOptions, Configuration
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError


def test_what_is_set_is_read_as_its_type() -> None:
    configuration = (
        Configuration()
        .set_string("text", "a")
        .set_integer("number", -7)
        .set_boolean("truth", True)
        .set_float("part", 0.1)
        .set_bytearray("bytes", bytearray(b"\x00\xff"))
    )

    assert configuration.get_string("text", "") == "a"
    assert configuration.get_integer("number", 0) == -7
    assert configuration.get_boolean("truth", False) is True
    assert configuration.get_float("part", 0.0) == 0.1
    assert configuration.get_bytearray("bytes", bytearray()) == b"\x00\xff"
    assert configuration.get_integer("missing", 5) == 5


def test_configurations_are_copied_merged_and_compared() -> None:
    first = Configuration.from_dict({"a": "1"})
    second = Configuration(first).add_all(Configuration.from_dict({"b": "2"}), prefix="x.")
    target: dict[str, str] = {}
    second.add_all_to_dict(target)

    assert target == second.to_dict() == {"a": "1", "x.b": "2"}
    assert (second.key_set(), second.contains_key("x.b")) == ({"a", "x.b"}, True)
    assert second.remove_config("x.b")
    assert not second.remove_config("x.b")
    assert second == first
    assert hash(second) == hash(first)
    assert first != {"a": "1"}
    assert str(first) == "{'a': '1'}"


@pytest.mark.parametrize(
    ("text", "items"), [("a;b", ["a", "b"]), ("", []), ("['a', 'b']", ["a", "b"])], ids=repr
)
def test_lists_are_read_as_flink_writes_them(text: str, items: list[str]) -> None:
    assert Configuration.parse_list_value(text) == items


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda made: made.get_integer("text", 0), r"setting 'text' is 'a'; expected an integer"),
        (lambda made: made.get_boolean("text", False), r"setting 'text' is 'a'; expected true or false"),
        (lambda made: made.get_float("text", 0.0), r"setting 'text' is 'a'; expected a number"),
        (lambda made: made.get_bytearray("number", bytearray()), r"is 'x'; expected hexadecimal digits"),
        (lambda made: made.set_string("key", 1), r"setting 'key' is 1; expected a str; use the method for"),
    ],
    ids=["integer", "truth", "float", "bytes", "no text"],
)
def test_a_text_that_is_something_else_is_refused(call: Callable[[Configuration], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(Configuration.from_dict({"text": "a", "number": "x"}))


def test_an_option_has_a_key_and_a_default() -> None:
    for kind in ("boolean", "int", "long", "float", "double", "string"):
        option = getattr(ConfigOptions.key("rate"), f"{kind}_type")().no_default_value()
        assert (option.key, option.default_value) == ("rate", None)
    assert ConfigOptions.key("rate").int_type().default_value(5).default_value == 5


def test_an_environment_takes_a_configuration_without_what_tunes_the_jvm() -> None:
    configuration = Configuration.from_dict(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": "1",
            "python.fn-execution.bundle.size": "1000",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)

    assert list(env.from_collection([1, 2]).execute_and_collect()) == [1, 2]


def test_an_environment_refuses_a_key_that_nobody_knows() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure(Configuration.from_dict({"paralelism.default": "1"}))

    with pytest.raises(ConfigError, match=r"unknown option 'paralelism.default' in program; did you mean"):
        env.get_execution_plan()
