"""Operator state that is declared in another way after a restore, and what it cannot be declared as."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tidegate.backends.keyed import ListStateDescriptor, MapStateDescriptor, StateDescriptor, StateTtlConfig
from tidegate.common import Time
from tidegate.errors import ConfigError, StateFormatError
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.runtime.operators.operator_state import OperatorStates
from tidegate.types import Types


def _rule(*fields: tuple[Any, ...]) -> Any:
    return dataclasses.make_dataclass("Rule", list(fields), frozen=True, namespace={"__module__": __name__})


Old = _rule(("name", str), ("limit", int))
New = _rule(("limit", float), ("action", str, "warn"))
Wrong = _rule(("limit", str))

KINDS = ["get_list_state", "get_union_list_state", "get_broadcast_state"]


def described(kind: str, cls: Any) -> StateDescriptor:
    if kind == "get_broadcast_state":
        return MapStateDescriptor("rules", Types.STRING(), Types.of(cls))
    return ListStateDescriptor("rules", Types.of(cls))


def asked(kind: str, cls: Any, *lists: OperatorList) -> tuple[OperatorStates, Any]:
    states = OperatorStates(RestoredOperator(lists=lists), subtask=0)
    return states, getattr(states, kind)(described(kind, cls))


def stored(kind: str) -> OperatorList:
    """One rule of the old type."""
    states, state = asked(kind, Old)
    if kind == "get_broadcast_state":
        state.put("a", Old("a", 7))
    else:
        state.add(Old("a", 7))
    (held,) = states.snapshot()
    return held


def held(state: Any) -> list[Any]:
    return list(state.values()) if hasattr(state, "values") else list(state.get())


@pytest.mark.parametrize("kind", KINDS)
def test_fields_come_and_go_and_grow(kind: str) -> None:
    states, state = asked(kind, New, stored(kind))
    assert [(rule, type(rule.limit)) for rule in held(state)] == [(New(7.0, "warn"), float)]

    (again,) = states.snapshot()
    assert held(asked(kind, New, again)[1]) == [New(7.0, "warn")]


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_read_is_refused_by_state_field_and_types(kind: str) -> None:
    with pytest.raises(
        StateFormatError,
        match=r"state 'rules' was stored with another type; stored as .*, the program declares .*; field limit: got string; expected long",
    ):
        asked(kind, Wrong, stored(kind))


def test_a_list_is_no_map() -> None:
    with pytest.raises(StateFormatError, match="the kind of a state and the keys of its map cannot change"):
        asked("get_broadcast_state", Old, stored("get_list_state"))


@pytest.mark.parametrize("kind", KINDS)
def test_items_from_before_types_were_kept_are_read_as_declared(kind: str) -> None:
    old = stored(kind)
    before = OperatorList(old.name, old.items, old.dealt)
    assert held(asked(kind, Old, before)[1]) == [Old("a", 7)]


@pytest.mark.parametrize("kind", KINDS)
def test_operator_state_does_not_expire(kind: str) -> None:
    descriptor = described(kind, Old)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    states = OperatorStates(RestoredOperator(), subtask=0)
    with pytest.raises(
        ConfigError,
        match=r"operator state 'rules' cannot expire; got \w+ state with a time to live; expected keyed state",
    ):
        getattr(states, kind)(descriptor)
