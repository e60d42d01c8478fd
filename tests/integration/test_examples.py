from __future__ import annotations

import ast
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tidegate.testing.services import KafkaService

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def run(name: str, directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", str(EXAMPLES / name), *arguments],
        cwd=directory,
        env={**os.environ, "XDG_STATE_HOME": str(directory / "state")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def records(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in directory.glob("*.jsonl") for line in file.read_text().splitlines()]


def test_first_steps_adds_up_each_account_once(tmp_path: Path) -> None:
    said = run("first_steps.py", tmp_path)

    totals = Counter((each["account"], each["total"]) for each in records(tmp_path / "totals"))
    assert totals == Counter(
        {(account, amount * n): 1 for account, amount in (("ann", 5), ("bob", 7)) for n in range(1, 1001)}
    )
    assert "state='finished'" in said


def test_first_steps_is_the_program_on_the_first_page() -> None:
    page = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    pasted = page.partition("```python run\n")[2].partition("```")[0]
    _docstring, *program = ast.parse((EXAMPLES / "first_steps.py").read_text(encoding="utf-8")).body

    assert [ast.unparse(each) for each in program] == [ast.unparse(each) for each in ast.parse(pasted).body]
    assert sum(bool(line.strip()) for line in pasted.splitlines()) <= 15


def test_running_totals_writes_each_payment_once(tmp_path: Path) -> None:
    said = run("running_totals.py", tmp_path, "3000")

    written = records(tmp_path / "payments-out")
    assert sorted(each["id"] for each in written) == list(range(3_000))
    last = {each["account"]: each for each in sorted(written, key=lambda each: each["count"])}
    assert sum(each["count"] for each in last.values()) == 3_000
    assert sum(each["total"] for each in last.values()) == sum(n * 17 % 1000 for n in range(3_000))
    assert said.startswith("finished from the start: read 3,000 payments in ")


@pytest.mark.parametrize("target", ["embedded", "inline"])
def test_unpaid_orders_raise_alerts_at_their_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setenv("TIDEGATE_EXECUTION_TARGET", target)

    assert run("alerts_with_timers.py", tmp_path).splitlines() == [
        "order 2 was not paid by minute 33",
        "order 4 was not paid by minute 50",
    ]


@pytest.mark.parametrize("target", ["embedded", "inline"])
def test_a_batch_job_prints_each_word_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setenv("TIDEGATE_EXECUTION_TARGET", target)

    printed = Counter(
        line.partition("> ")[2] or line for line in run("word_totals.py", tmp_path).splitlines()
    )
    assert printed["('pond', 2)"] == 1
    assert sum(printed.values()) == len(printed) == 12


def test_visits_are_told_once_and_late_clicks_apart(tmp_path: Path) -> None:
    assert run("sessions_with_late_data.py", tmp_path).splitlines() == [
        "ada came at minute  9 and looked at pot, tea",
        "ada came at minute 95 and looked at pot",
        "ada looked at jam, told too late",
        "bob came at minute 14 and looked at jam",
        "bob came at minute 90 and looked at tea",
    ]


def test_orders_and_payments_find_each_other_or_a_timer_says_so(tmp_path: Path) -> None:
    assert run("orders_meet_payments.py", tmp_path).splitlines() == [
        "order 1: 320 of 320 cents are paid",
        "order 2: 450 of 450 cents are paid",
        "order 3: not paid within an hour",
        "order 4: 70 of 80 cents are paid",
        "order 5: paid, but never ordered",
    ]


def test_payments_are_checked_whether_their_limit_comes_before_or_after_them(tmp_path: Path) -> None:
    assert run("rules_by_broadcast.py", tmp_path).splitlines() == [
        "ann: 700 EUR is above 500",
        "bob: 400 GBP is above 300",
    ]


def test_every_order_gets_its_price_from_a_service_that_is_often_busy(tmp_path: Path) -> None:
    cents = {"tea": 320, "jam": 450, "pot": 1_900}
    things = [("tea", "jam", "pot")[number % 3] for number in range(1, 10)]

    assert run("lookup_with_retry.py", tmp_path).splitlines() == [
        f"order {number}: {thing} for {cents[thing]} cents" for number, thing in enumerate(things, start=1)
    ]


@pytest.mark.service
def test_what_users_spent_is_in_kafka_once_for_every_order(kafka: KafkaService, tmp_path: Path) -> None:
    said = run("kafka_to_kafka.py", tmp_path, kafka.address)

    assert said.splitlines() == [
        "finished: 300 orders",
        *(f"{user} spent {sum(range(n, 300, 3))}" for n, user in enumerate(("ada", "bob", "eve"))),
    ]


def test_files_that_arrive_are_read_once_over_a_restart(tmp_path: Path) -> None:
    assert run("watch_a_directory.py", tmp_path).splitlines() == [
        "after monday: [2, 3]",
        "after tuesday: [2, 3, 4, 5, 6]",
    ]


def test_each_hour_of_a_warehouse_is_announced_once_and_whole(tmp_path: Path) -> None:
    assert run("partitions_for_a_warehouse.py", tmp_path).splitlines() == [
        *(f'whole: {{"day": "2024-05-01", "hour": "0{hour}"}}' for hour in (7, 8, 9)),
        "rows by hour: {7: 60, 8: 60, 9: 60}",
    ]


@pytest.mark.service
def test_every_sale_of_the_files_is_in_kafka_once(kafka: KafkaService, tmp_path: Path) -> None:
    said = run("files_to_kafka.py", tmp_path, kafka.address)

    sums = {
        shop: sum(n * 7 % 50 + 0.5 for n in range(index, 60, 3))
        for index, shop in enumerate(("graz", "linz", "wien"))
    }
    assert said.splitlines() == [
        "finished: 60 sales",
        *(f"{shop}: 20 sales, {euro:.2f} euro" for shop, euro in sums.items()),
    ]


@pytest.mark.service
def test_an_audit_proves_that_all_clicks_are_in_the_files_and_names_one_that_is_lost(
    kafka: KafkaService, tmp_path: Path
) -> None:
    said = run("kafka_to_files.py", tmp_path, kafka.address)

    proof, _, found = said.partition("exit code 0\n")
    assert f"input   kafka://{kafka.address}/clicks?format=json: 200 records (clicks:" in proof
    assert "proven: all 134 expected records are in the output, each once, and no others" in proof
    assert "NOT PROVEN: of 134 expected records: 1 missing" in found
    assert "missing  clicks:" in found
    assert found.endswith("exit code 1\n")


def test_history_is_read_before_what_is_live_and_all_of_it_once(tmp_path: Path) -> None:
    said = run("history_then_live.py", tmp_path)

    orders = records(tmp_path / "orders")
    newest_ms = max(file.stat().st_mtime_ns // 1_000_000 for file in (tmp_path / "archive").iterdir())
    assert sorted(each["id"] for each in orders) == list(range(1_200))
    assert [each["at"] for each in orders if each["id"] == 1_000] == [newest_ms]
    assert "records=1200" in said


def test_alerts_are_delivered_once_under_their_tokens(tmp_path: Path) -> None:
    run("deliver_once.py", tmp_path)

    with closing(sqlite3.connect(tmp_path / "outbox.db")) as outbox:
        messages = [json.loads(message) for (message,) in outbox.execute("SELECT message FROM messages")]
        (tokens,) = outbox.execute("SELECT count(*) FROM tokens").fetchone()
    expected = [(n % 5, f"{n % 40} degrees") for n in range(400) if n % 40 > 30]
    assert Counter((each["sensor"], each["alert"]) for each in messages) == Counter(expected)
    assert tokens >= 1
