"""An audit of files, beside what counting says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import Part, Remaining
from tidegate.errors import ConfigError, RecordError, UnavailableError, UserCodeError
from tidegate.ids import SplitId
from tidegate.runtime.audit import comparison as module
from tidegate.runtime.audit.comparison import Comparison
from tidegate.runtime.audit.findings import AuditFinding, Side, Verdict
from tidegate.runtime.audit.rule import Rule, key_of


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audited")


def written(directory: Path, name: str, records: Iterable[Any]) -> str:
    file = directory / f"{name}.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(file)


def compared(
    directory: Path, given: Iterable[Any], found: Iterable[Any], rule: Rule | None = None, named: int = 10
) -> Verdict:
    sides = written(directory, "in", given), written(directory, "out", found)
    return Comparison(*sides, rule or Rule(), directory, SYSTEM_CLOCK, named).verdict()


numbers = st.lists(st.integers(0, 9), max_size=25)


@given(given=numbers, found=numbers)
def test_an_audit_finds_what_counting_finds(directory: Path, given: list[int], found: list[int]) -> None:
    if not (given or found):
        return
    verdict = compared(directory, given, found)

    wanted, there = Counter(given), Counter(found)
    surplus = there - wanted
    assert verdict.counts == {
        "missing": (wanted - there).total(),
        "duplicate": sum(count for n, count in surplus.items() if n in wanted),
        "unexpected": sum(count for n, count in surplus.items() if n not in wanted),
    }
    assert verdict.proven == (wanted == there)
    assert (verdict.expected, verdict.input.records, verdict.output.records) == (
        len(given),
        len(given),
        len(found),
    )
    named = {(each.kind, int(each.record)) for each in verdict.findings}
    assert {n for kind, n in named if kind == "missing"} == set(wanted - there)
    assert {n for kind, n in named if kind != "missing"} == set(surplus)


def test_wrong_records_are_named_with_their_places_in_order(directory: Path) -> None:
    verdict = compared(
        directory,
        [{"id": n} for n in range(10)],
        [{"id": 1}, *({"id": n} for n in range(8)), {"id": 70}, {"id": 1}],
    )

    out = directory / "out.jsonl"
    assert verdict.findings == (
        AuditFinding("missing", (f"{directory / 'in.jsonl'} byte 80",), '{"id":8}'),
        AuditFinding("missing", (f"{directory / 'in.jsonl'} byte 90",), '{"id":9}'),
        AuditFinding("duplicate", (f"{out} byte 0", f"{out} byte 20", f"{out} byte 101"), '{"id":1}'),
        AuditFinding("unexpected", (f"{out} byte 90",), '{"id":70}'),
    )
    assert verdict.counts == {"missing": 2, "duplicate": 2, "unexpected": 1}


def test_parts_of_a_file_that_follow_each_other_are_one_range() -> None:
    parts = [
        Part(FileSplit(SplitId(str(n)), "a", n, n + 5), n, n + 5, name, "byte")
        for n, name in ((0, "a"), (5, "a"), (15, "a"), (20, "b"))
    ]

    assert Side("in", 9, tuple(parts), ()).ranges == [
        ("a", "byte", 0, 10),
        ("a", "byte", 15, 20),
        ("b", "byte", 20, 25),
    ]


def test_only_the_first_of_a_kind_are_named(directory: Path) -> None:
    verdict = compared(directory, range(5_000), [], named=3)

    assert [each.record for each in verdict.findings] == ["0", "1", "2"]
    assert verdict.counts["missing"] == 5_000


def test_a_function_says_which_records_a_record_leads_to(directory: Path) -> None:
    rule = Rule(
        lambda n: [{"n": n, "copy": 0}, {"n": n, "copy": 1}] if n % 2 else [], output_key=key_of("n,copy")
    )
    found = [{"n": 1, "copy": 0, "at": 7}, {"n": 1, "copy": 1, "at": 8}, {"n": 3, "copy": 0, "at": 9}]

    verdict = compared(directory, range(5), found, rule)

    assert verdict.expected == 4
    (missing,) = verdict.findings
    assert (missing.kind, missing.record) == ("missing", '{"n":3,"copy":1}')
    assert missing.places == (f"{directory / 'in.jsonl'} byte 6",)


def test_what_was_read_behind_a_checkpoint_may_be_there_but_once(directory: Path) -> None:
    given = written(directory, "in", range(10))
    left = FileSplit(SplitId("rest"), given, at=10, stop=20, begun=True)
    remaining = Remaining((msgspec.msgpack.encode(left),), msgspec.msgpack.encode({"v": 1, "splits": []}))

    def verdict(found: list[int]) -> Verdict:
        side = written(directory, "out", found)
        return Comparison(given, side, Rule(), directory, SYSTEM_CLOCK).verdict(remaining, 7)

    assert verdict([0, 1, 2, 3, 4]).proven
    assert verdict([0, 1, 2, 3, 4, 7, 9]).proven
    assert verdict([0, 1, 2, 3, 4, 7, 7]).counts == {"missing": 0, "duplicate": 1, "unexpected": 0}
    lost = verdict([0, 1, 2, 4, 5])
    assert (lost.counts["missing"], lost.findings[0].record, lost.checkpoint) == (1, "3", 7)


def test_an_audit_of_nothing_proves_nothing(directory: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"^neither .*in\.jsonl nor .*out\.jsonl has a record in the requested range",
    ):
        compared(directory, [], [])


@pytest.mark.parametrize(
    ("rule", "error", "said"),
    [
        (
            Rule(input_key=key_of("id")),
            RecordError,
            r"in\.jsonl byte 10: record \[2\] has no such key",
        ),
        (
            Rule(lambda r: [r["id"]]),
            UserCodeError,
            r"in\.jsonl byte 10: the function of --expect failed",
        ),
        (
            Rule(lambda r: r if r == [2] else "x"),
            ConfigError,
            r"in\.jsonl byte 0: the function .* returned 'x' for",
        ),
    ],
    ids=["no such key", "a function that fails", "a function that gives no list"],
)
def test_a_record_that_cannot_be_judged_is_named_with_its_place(
    directory: Path, rule: Rule, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        compared(directory, [{"id": 1}, [2]], [], rule)


def test_a_record_that_is_gone_when_it_is_to_be_named_is_said_so(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = module._compared

    def vanishing(*arguments: Any) -> Any:
        (directory / "in.jsonl").write_text("")
        return compare(*arguments)

    monkeypatch.setattr(module, "_compared", vanishing)
    with pytest.raises(UnavailableError, match=r"^the record at byte 0 of .*in\.jsonl no longer exists$"):
        compared(directory, [1], [])
