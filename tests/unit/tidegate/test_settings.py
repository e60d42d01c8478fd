"""Settings as text and as values."""

from __future__ import annotations

import datetime
import enum
from pathlib import Path
from typing import Any, Literal, Optional

import pytest

from tidegate.errors import ConfigError
from tidegate.settings import parse_setting


class Mode(enum.Enum):
    EXACTLY_ONCE = "exactly-once"
    NONE = 0


@pytest.mark.parametrize(
    ("value", "expected", "name", "result"),
    [
        ("a", str, "x", "a"),
        ("3", int, "x", 3),
        (3, int, "x", 3),
        ("-3", int, "x", -3),
        ("1.5", float, "x", 1.5),
        (1, float, "x", 1.0),
        ("true", bool, "x", True),
        (" False ", bool, "x", False),
        (True, bool, "x", True),
        ("a/b", Path, "x", Path("a/b")),
        (Path("a"), Path, "x", Path("a")),
        ("exactly-once", Mode, "x", Mode.EXACTLY_ONCE),
        ("exactly_once", Mode, "x", Mode.EXACTLY_ONCE),
        ("NONE", Mode, "x", Mode.NONE),
        (Mode.NONE, Mode, "x", Mode.NONE),
        ("heap", Literal["heap", "rocksdb"], "x", "heap"),
        ("2", Literal[1, 2], "x", 2),
        (2, Literal[1, 2], "x", 2),
        (None, int | None, "x", None),
        ("3", int | None, "x", 3),
        ("3", Optional[int], "x", 3),  # noqa: UP045  # the old spelling is what is tested
        ("10 s", int | None, "x_ms", 10_000),
        ("a, b,", tuple[str, ...], "x", ("a", "b")),
        (["1", 2], tuple[int, ...], "x", (1, 2)),
        ("", tuple[str, ...], "x", ()),
        ("500 ms", int, "x_ms", 500),
        ("500", int, "x_ms", 500),
        (500, int, "x_ms", 500),
        ("10s", int, "x_ms", 10_000),
        ("10 SEC", int, "x_ms", 10_000),
        ("1 min", int, "x_ms", 60_000),
        ("2m", int, "x_ms", 120_000),
        ("1h", int, "x_ms", 3_600_000),
        ("2 d", int, "x_ms", 172_800_000),
        (datetime.timedelta(seconds=1.5), int, "x_ms", 1_500),
        ("64 kb", int, "x_bytes", 65_536),
        ("5mb", int, "x_bytes", 5 * 2**20),
        ("1 G", int, "x_bytes", 2**30),
        ("1tb", int, "x_bytes", 2**40),
        ("7 b", int, "x_bytes", 7),
        ("7", int, "x_bytes", 7),
    ],
    ids=repr,
)
def test_a_setting_is_read_as_its_type(value: Any, expected: Any, name: str, result: Any) -> None:
    found = parse_setting(value, expected, name, "option 'x'")

    assert (type(found), found) == (type(result), result)


@pytest.mark.parametrize(
    ("value", "expected", "name", "wanted"),
    [
        ("a", int, "x", "int"),
        (True, int, "x", "int"),
        (1.0, int, "x", "int"),
        ("1 s", int, "x", "int"),
        (True, float, "x", "float"),
        ("a", float, "x", "float"),
        ("yes", bool, "x", "true or false"),
        (1, bool, "x", "true or false"),
        (1, str, "x", "str"),
        (1, Path, "x", "Path"),
        ("exactly", Mode, "x", "one of 'exactly_once', 'none'"),
        (0, Mode, "x", "one of 'exactly_once', 'none'"),
        ("mem", Literal["heap", "rocksdb"], "x", "one of 'heap', 'rocksdb'"),
        (True, Literal[1, 2], "x", "one of 1, 2"),
        (None, int, "x", "int"),
        (3, tuple[str, ...], "x", "a list of str"),
        (["a"], tuple[int, ...], "x", "a list of int"),
        ("10 kb", int, "x_ms", "a duration such as '500 ms' or '10 s'"),
        ("soon", int, "x_ms", "a duration"),
        ("1.5 s", int, "x_ms", "a duration"),
        (1.5, int, "x_ms", "a duration"),
        ("10 s", int, "x_bytes", "a size such as '64 kb'"),
        (datetime.timedelta(1), int, "x_bytes", "a size"),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused_with_what_was_expected(
    value: Any, expected: Any, name: str, wanted: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^option 'x' has an invalid value; got .*; expected {wanted}"):
        parse_setting(value, expected, name, "option 'x'")
