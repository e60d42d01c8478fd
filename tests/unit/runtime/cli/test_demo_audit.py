from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from tidegate.errors import InternalError
from tidegate.runtime.cli.demo.audit import NAMED, audit
from tidegate.runtime.cli.demo.payments import Payments, RunningTotal, parse
from tidegate.runtime.cli.demo.sabotage import sabotage

PAYMENTS = Payments(2_000)


def right_totals() -> list[RunningTotal]:
    """What the pipeline must write, added up in the simplest way."""
    booked = [
        payment for payment in map(parse, map(PAYMENTS, range(PAYMENTS.count))) if payment.state == "booked"
    ]
    totals = []
    for payment in booked:
        mine = [each for each in booked if each.account == payment.account and each.id <= payment.id]
        totals.append(RunningTotal(payment.id, payment.account, len(mine), sum(each.cents for each in mine)))
    return totals


@pytest.fixture(scope="module")
def totals() -> list[RunningTotal]:
    return right_totals()


@pytest.fixture
def output(tmp_path: Path, totals: list[RunningTotal]) -> Path:
    """Two files with the right totals, as two subtasks would write them."""
    for index, branch in enumerate(("north", "south")):
        write(
            tmp_path / f"part-{index}.jsonl", [total for total in totals if total.account.startswith(branch)]
        )
    return tmp_path


def write(file: Path, totals: list[RunningTotal]) -> None:
    file.write_bytes(msgspec.json.Encoder().encode_lines(totals))


def read(file: Path) -> list[RunningTotal]:
    return [msgspec.json.decode(line, type=RunningTotal) for line in file.read_bytes().splitlines()]


def test_right_output_passes_and_declined_payments_are_not_missed(
    output: Path, totals: list[RunningTotal]
) -> None:
    found = audit(PAYMENTS, output)

    assert found.passed
    assert found.findings == []
    assert (found.records_in, found.records_out, found.declined) == (2_000, len(totals), 2_000 - len(totals))
    assert found.declined > 0


def test_a_lost_record_is_named(output: Path) -> None:
    first, *rest = read(output / "part-0.jsonl")
    write(output / "part-0.jsonl", rest)

    found = audit(PAYMENTS, output)

    assert not found.passed
    assert [(each.kind, each.id) for each in found.findings] == [("lost", first.id)]
    assert f"record {first.id} is lost: account {first.account}" in found.findings[0].text


def test_a_record_in_two_files_is_named_with_the_place(output: Path) -> None:
    twice = read(output / "part-0.jsonl")[3]
    write(output / "part-2.jsonl", [twice])

    found = audit(PAYMENTS, output)

    assert dict(found.counts) == {"doubled": 1}
    assert found.findings[0].id == twice.id
    assert found.findings[0].text.endswith("again in part-2.jsonl line 1")


@pytest.mark.parametrize(
    "change",
    [{"cents": 1}, {"count": 9}, {"account": "north-xyz"}],
    ids=["sum", "count", "account"],
)
def test_a_wrong_total_is_named_with_what_was_expected(output: Path, change: dict[str, int | str]) -> None:
    first, *rest = read(output / "part-0.jsonl")
    write(output / "part-0.jsonl", [msgspec.structs.replace(first, **change), *rest])

    found = audit(PAYMENTS, output)

    assert [(each.kind, each.id) for each in found.findings] == [("wrong", first.id)]
    assert found.findings[0].text.endswith(f"expected (1, {first.cents}) for account {first.account}")


def test_a_declined_or_unknown_payment_must_not_be_in_the_output(output: Path) -> None:
    declined = next(n for n in range(2_000) if PAYMENTS.payment(n).state == "declined")
    write(output / "part-2.jsonl", [RunningTotal(n, "north-000", 1, 1) for n in (declined, 2_000, -1)])

    found = audit(PAYMENTS, output)

    assert sorted(each.id for each in found.findings) == [-1, declined, 2_000]
    assert {each.kind for each in found.findings} == {"wrong"}


def test_a_torn_line_is_named_by_its_place(output: Path) -> None:
    (output / "part-2.jsonl").write_bytes(b'{"id": 1, "acc')

    found = audit(PAYMENTS, output)

    assert found.findings[0].text.startswith("part-2.jsonl line 1 is not a running total: ")


def test_of_much_damage_the_first_records_are_named_and_all_are_counted(output: Path) -> None:
    lost = len(read(output / "part-1.jsonl"))
    (output / "part-1.jsonl").unlink()

    found = audit(PAYMENTS, output)

    assert found.counts["lost"] == lost > NAMED
    assert len(found.findings) == NAMED


def test_sabotage_is_found_out_and_leaves_the_number_of_records_as_it_was(
    output: Path, totals: list[RunningTotal]
) -> None:
    done = sabotage(output, random.Random(7))

    found = audit(PAYMENTS, output)

    assert {(each.kind, each.id) for each in found.findings} == {
        ("lost", done.dropped),
        ("doubled", done.doubled),
    }
    assert found.records_out == len(totals)


def test_sabotage_needs_something_to_damage(tmp_path: Path) -> None:
    with pytest.raises(
        InternalError, match="has no file with two records after two kills; please report this"
    ):
        sabotage(tmp_path, random.Random(7))
