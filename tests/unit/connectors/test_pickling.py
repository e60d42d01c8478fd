"""Classes of a program's own module travel by value, however often they were used before."""

from __future__ import annotations

import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.base.pickling import dumps_plain

PROGRAM = """
from typing import NamedTuple
from tidegate.connectors.collection import CollectionSource
from tidegate.types import Types

class Payment(NamedTuple):
    account: str
    amount: int

for _ in range(2):
    source = CollectionSource([Payment("ann", 5)], Types.of(Payment))
    print(source.items()[0] == Payment("ann", 5), type(source.items()[0]) is Payment)
"""


def test_a_class_of_the_main_module_serves_twice_in_one_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    said = subprocess.run([sys.executable, "-P", program], capture_output=True, text=True, check=True).stdout

    assert said.split() == ["True"] * 4


@pytest.mark.parametrize(
    "value", [Fraction(1, 2), [{"at": (Fraction(1, 2),)}], int], ids=["itself", "inside", "class"]
)
def test_only_values_of_built_in_types_are_plain(value: Any) -> None:
    assert pickle.loads(dumps_plain([1, ("a", {2.5: [None]})])) == [1, ("a", {2.5: [None]})]
    with pytest.raises(pickle.PicklingError, match="is not a built-in type"):
        dumps_plain([1, value])
