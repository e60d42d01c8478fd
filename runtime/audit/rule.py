"""Comparison rule: the output records expected for an input record, and when two records are equal.

Example:
    >>> rule = Rule(expect=lambda order: [{"id": order["id"]}] * (order["cents"] > 0), output_key=key_of("id"))
    >>> [rule.of_output({"id": 7, "total": 20})] == rule.of_input({"id": 7, "cents": 5})
    True
    >>> rule.of_input({"id": 8, "cents": 0})
    []
"""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import msgspec

from tidegate.errors import ConfigError, RecordError, UserCodeError

__all__ = ["Key", "Rule", "key_of", "load_function", "same"]

Key: TypeAlias = Callable[[Any], Any]
"""The part of a record that is compared."""


def same(record: Any) -> Any:
    """All of it counts."""
    return record


@dataclass(frozen=True, slots=True)
class Rule:
    """How records of input and output belong together.

    Args:
        expect: The records that an input record should lead to; None if it should be in the output itself.
        input_key: What counts of an input record, where nothing is said about what it leads to.
        output_key: What counts of an output record, and of one that is expected.
    """

    expect: Callable[[Any], Iterable[Any] | None] | None = None
    input_key: Key = same
    output_key: Key = same

    def of_input(self, record: Any) -> list[bytes]:
        """What is expected because of an input record, as bytes that are equal where records count as the same.

        Raises:
            ConfigError: the function gives no list of records.
            RecordError: a record does not have what counts, or has no such bytes.
            UserCodeError: the function failed.
        """
        if self.expect is None:
            return [_identity(self.input_key, record)]
        return [_identity(self.output_key, each) for each in self.expected(record)]

    def of_output(self, record: Any) -> bytes:
        """An output record as such bytes; raises as `of_input` does."""
        return _identity(self.output_key, record)

    def expected(self, record: Any) -> list[Any]:
        """What an input record should lead to; raises as `of_input` does."""
        if self.expect is None:
            return [record]
        try:
            told = self.expect(record)
            found = [] if told is None else told
            if not isinstance(found, str | bytes | dict):
                return list(found)
        except Exception as error:
            raise UserCodeError(f"the function of --expect failed for {_shown(record)}") from error
        raise ConfigError(
            f"the function of --expect returned {_shown(found)} for {_shown(record)}; expected a list of records"
        )


def key_of(text: str) -> Key:
    """The key of a record from a text: names such as `id` or `user.id,day`, or an expression of `record`.

    Example:
        >>> key_of("user.id,day")({"user": {"id": 7}, "day": 3}), key_of("record['day'] // 2")({"day": 3})
        ((7, 3), 1)

    Raises:
        ConfigError: it is neither.
    """
    names = [each.strip().split(".") for each in text.split(",")]
    if all(part.isidentifier() for path in names for part in path) and ["record"] not in names:
        paths = [[_at(part) for part in path] for path in names]
        if len(paths) == 1:
            return lambda record: reduce(_step, paths[0], record)
        return lambda record: tuple(reduce(_step, path, record) for path in paths)
    try:
        code = compile(text.strip(), "<key>", "eval")
    except SyntaxError as error:
        raise ConfigError(
            f"key {text!r} cannot be parsed ({error.msg}); expected names such as id or user.id,day, or an expression with "
            "record in it"
        ) from error
    return lambda record: eval(
        code, {"record": record}
    )  # the expression is written by the user who started the command


def load_function(text: str) -> Callable[[Any], Any]:
    """The function `<file or module>:<name>`.

    Raises:
        ConfigError: the function does not exist.
    """
    where, _, name = text.rpartition(":")
    try:
        found = runpy.run_path(where) if where.endswith(".py") else vars(importlib.import_module(where))
    except (ImportError, OSError, ValueError) as error:
        raise ConfigError(
            f"function {text!r} cannot be loaded: {error}; expected <file.py or module>:<name>"
        ) from error
    if not callable(found.get(name)):
        raise ConfigError(f"{where!r} has no function {name!r}; expected a function of one input record")
    function: Callable[[Any], Any] = found[name]
    return function


def _identity(key: Key, record: Any) -> bytes:
    try:
        counts = key(record)
    except Exception as error:
        raise RecordError(
            f"record {_shown(record)} has no such key ({type(error).__name__}: {error}); correct the key"
        ) from error
    try:
        return _ENCODER.encode(counts)
    except (TypeError, ValueError, OverflowError) as error:
        raise RecordError(
            f"record {_shown(record)} cannot be compared: {error}; give a key with comparable fields"
        ) from error


def _at(name: str) -> Callable[[Any], Any]:
    return lambda record: record[name] if isinstance(record, dict) else getattr(record, name)


def _step(record: Any, at: Callable[[Any], Any]) -> Any:
    return at(record)


def _shown(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


_LONG: Final = 120
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
