"""Errors cross processes whole: class, message, attributes, and each note once."""

from __future__ import annotations

import inspect
import pickle

import pytest

from tidegate import errors
from tidegate.errors import TidegateError

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, TidegateError)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_errors_survive_pickling(cls: type[TidegateError]) -> None:
    error = cls("the disk is full")

    copied = pickle.loads(pickle.dumps(error))

    assert type(copied) is cls
    assert copied.args == error.args
    assert str(copied) == str(error)


def test_notes_are_carried_once_over_any_number_of_processes() -> None:
    error = TidegateError("no answer")
    error.add_note("while writing state 'total'")

    copied = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(error))))

    assert copied.__notes__ == ["while writing state 'total'"]


def test_attributes_are_carried() -> None:
    error = TidegateError("no answer")
    error.attempt = 3  # type: ignore[attr-defined] # any attribute

    assert pickle.loads(pickle.dumps(error)).attempt == 3


def test_every_class_says_whose_fault_it_is_and_ends_in_error() -> None:
    assert all(cls.__doc__ and cls.__name__.endswith("Error") for cls in CLASSES)
    assert len(CLASSES) <= 14, "cut classes by what their reader does next"
