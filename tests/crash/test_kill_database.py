"""`kill -9` at every step of a checkpoint of a job that writes to Postgres, by staged rows and by prepared transactions.

Afterwards every row is there once, the newest total of each account is right, no transaction is left prepared and no row staged.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.crash.conftest import COUNT, RATE, Job
from tests.waiting import until
from tidegate.clock import new_id
from tidegate.testing.services import PostgresService

pytestmark = [pytest.mark.crash, pytest.mark.service]

PROGRAM = Path(__file__).parent / "programs" / "database_totals.py"
OF_WORKERS = [
    "taskmanager-1/sink.after-flush@3",
    "taskmanager-0/commit.after@3",
    "taskmanager-1/sink.before-flush@3",
    "taskmanager-1/sink.after-prepare@3",
    "taskmanager-1/task.before-ack@3",
    "taskmanager-0/commit.before@3",
    "taskmanager-0/commit.between@3",
]
OF_COORDINATOR = ["checkpoint.before-settled", "checkpoint.after-metadata", "checkpoint.after-swap"]
QUICK = 2
"""How many of each are tried unless there is time; the rest is for long runs."""


@dataclass
class DatabaseJob(Job):
    """The running totals into tables of a schema of their own."""

    dsn: str = ""
    schema: str = ""

    def query(self, sql: str) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def rows(self) -> int:
        """How many totals are visible."""
        return int(self.query(f"SELECT count(*) FROM {self.schema}.totals")[0][0])

    def wrong(self) -> list[str]:
        """What is wrong with both tables."""
        totals: Counter[str] = Counter()
        for number in range(COUNT):
            totals[f"account-{number * 7919 % 97}"] += number % 13
        ids = Counter(each for (each,) in self.query(f"SELECT id FROM {self.schema}.totals"))
        wanted = Counter(number for number in range(COUNT) if number % 13)
        newest = dict(self.query(f"SELECT account, total FROM {self.schema}.newest"))
        left = self.query("SELECT gid FROM pg_prepared_xacts")
        staged = self.query(f"SELECT name FROM {self.schema}.tidegate_work WHERE NOT committed")
        return [
            *(f"row {number} is missing" for number in wanted - ids),
            *(f"row {number} is there twice" for number in ids - wanted),
            *(
                f"{name} has {newest.get(name)} where {total} was due"
                for name, total in totals.items()
                if newest.get(name) != total
            ),
            *(f"{gid} is left prepared" for (gid,) in left),
            *(f"{name} is left staged" for (name,) in staged),
        ]


@pytest.fixture(params=["staged", "prepared"])
def job(request: pytest.FixtureRequest, postgres: PostgresService, tmp_path: Path) -> DatabaseJob:
    schema = f"s_{new_id(8)}"
    arguments = (postgres.dsn, schema, request.param)
    made = DatabaseJob(tmp_path, {}, PROGRAM, arguments, RATE, dsn=postgres.dsn, schema=schema)
    made.query(f"CREATE SCHEMA {schema}")
    made.query(
        f"CREATE TABLE {schema}.totals (id bigint NOT NULL, account text NOT NULL, total bigint NOT NULL)"
    )
    made.query(f"CREATE TABLE {schema}.newest (account text PRIMARY KEY, total bigint NOT NULL)")
    return made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    points = {"of_worker": OF_WORKERS, "of_coordinator": OF_COORDINATOR}
    long = metafunc.config.getoption("--profile") == "long"
    for name in points.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, points[name] if long else points[name][:QUICK])


def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_doubled(job: DatabaseJob, of_worker: str) -> None:
    done = job.run_into(of_worker)

    assert done.returncode == 0, done.stderr
    assert job.reached(of_worker), f"{of_worker} was never passed"
    assert "killed by SIGKILL" in done.stderr
    assert job.wrong() == []


def test_a_killed_coordinator_is_followed_by_a_start_that_loses_and_doubles_nothing(
    job: DatabaseJob, of_coordinator: str
) -> None:
    job.kill_at(of_coordinator)
    job.result()
    assert job.wrong() == []


def test_a_server_that_stops_and_starts_again_is_waited_for(job: DatabaseJob) -> None:
    """All its connections end at once, as when it is restarted: what was being written is written again."""
    command = job.command({})
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(3):
            before = job.rows()
            until(lambda before=before: job.rows() > before)  # type: ignore[misc] # a default is a type mypy does not see
            job.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate' AND pid <> pg_backend_pid()"
            )
        _, errors = process.communicate(timeout=job.patience_s)
    assert process.returncode == 0, errors
    assert job.wrong() == []
