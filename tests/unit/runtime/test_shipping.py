"""What is said of a program that cannot travel, or does not arrive."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tidegate.errors import ConfigError
from tidegate.runtime.shipping import pack, unpack


def test_a_module_that_is_missing_where_the_program_runs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("only_here")
    exec("def rule(value): return value", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    packed = pack("operator 'map'", module.__dict__["rule"])
    monkeypatch.delitem(sys.modules, "only_here")

    with pytest.raises(
        ConfigError,
        match=r"needs module 'only_here', which cannot be imported where it runs \(.*; install it",
    ):
        unpack(packed)
