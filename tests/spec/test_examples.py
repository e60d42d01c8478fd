"""The bookkeeping of the acceptance examples is itself right."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
LISTED = tomllib.loads((TESTS / "spec" / "examples.toml").read_text(encoding="utf-8"))
EXAMPLE_ID = re.compile(r"\d{3}/(EX|AX)-\d{2,3}")
ITEM_ID = re.compile(r"\d{3}/[A-Z]+\d?(-[A-Z]+)*-\d+")


def spec_calls() -> list[tuple[str, ast.Call]]:
    return [
        (f"{path.relative_to(TESTS.parent)}:{node.lineno}", node)
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec"
    ]


def test_all_194_examples_are_listed_group_by_group() -> None:
    groups = Counter(name[:3] for name in LISTED["examples"])

    assert groups == {"000": 30, "001": 6, "002": 66, "003": 38, "004": 54}
    assert sum(groups.values()) == 194


@pytest.mark.parametrize(("table", "pattern"), [("examples", EXAMPLE_ID), ("items", ITEM_ID)])
def test_every_listed_id_has_the_right_form_and_one_sentence(table: str, pattern: re.Pattern[str]) -> None:
    for name, sentence in LISTED[table].items():
        assert pattern.fullmatch(name), name
        assert 10 < len(sentence) < 240, name
        assert "\n" not in sentence, name


def test_sentences_are_written_once() -> None:
    sentences = Counter([*LISTED["examples"].values(), *LISTED["items"].values()])

    assert [sentence for sentence, times in sentences.items() if times > 1] == []


def test_an_item_is_not_an_example() -> None:
    assert [name for name in LISTED["items"] if EXAMPLE_ID.fullmatch(name)] == []


def test_marks_cite_only_listed_ids_and_write_them_out() -> None:
    known = {*LISTED["examples"], *LISTED["items"]}
    unknown = [
        f"{place}: {ast.unparse(argument)}"
        for place, call in spec_calls()
        for argument in call.args
        if not (isinstance(argument, ast.Constant) and argument.value in known)
    ]

    assert unknown == []


def test_every_mark_cites_something() -> None:
    assert [place for place, call in spec_calls() if not call.args or call.keywords] == []
