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


STRUCTS = """
from __future__ import annotations
import subprocess, sys
import msgspec
from tidegate.connectors.base.pickling import dumps
from tidegate.connectors.spi import Split

class Item(msgspec.Struct):
    number: int

class Page(Split, frozen=True, tag=3):
    at: int
    items: list[Item] = []
    kind: str = msgspec.field(default="x", name="k")

    def __post_init__(self) -> None:
        if self.at < 0:
            raise ValueError("negative")

    def behind(self) -> Page:
        return Page(self.id, self.at + 1, self.items)

class Part(Page, frozen=True, kw_only=True, tag=4):
    end: int

def work(data):
    page = msgspec.msgpack.decode(data, type=Page)
    try:
        Page("a", -1)
    except ValueError as error:
        return repr((page.behind(), Part("b", 1, end=2), str(error)))

data = msgspec.msgpack.encode(Page("a", 1, [Item(2)], "y"))
there = "import sys, cloudpickle; work, data = cloudpickle.loads(sys.stdin.buffer.read()); print(work(data))"
done = subprocess.run([sys.executable, "-P", "-c", there], input=dumps((work, data)), capture_output=True, check=True)
assert done.stdout.decode().strip() == work(data), done.stdout
print(work(data))
"""


def test_structs_of_a_script_have_their_fields_and_methods_in_another_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(STRUCTS)

    done = subprocess.run(
        [sys.executable, "-P", str(program)], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "(Page(id='a', at=2, items=[Item(number=2)], kind='x'), "
        "Part(id='b', at=1, items=[], kind='x', end=2), 'negative')\n"
    )
