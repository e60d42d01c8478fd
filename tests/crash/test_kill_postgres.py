"""`kill -9` of a job that copies a table of Postgres while programs write to it, and of the server.

The job, or one of its workers, dies at random moments, during the first load too. Its files, replayed in the order of the log,
must be the table; the replay refuses a change that does not follow from those before it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.crash.conftest import Job
from tests.waiting import PATIENCE_S, until
from tidegate.testing.services import PostgresService

pytestmark = [pytest.mark.crash, pytest.mark.service]

PROGRAM = Path(__file__).parent / "programs" / "postgres_copy.py"
KILLS, KILLS_LONG = 4, 60
ROWS, WRITERS = 1_500, 2
PASSWORD = "kept-out-of-every-file"  # shows whether it is
MARK = -1
MOST_S = 3.0
"""The longest life of a job after its first checkpoint."""
_PAUSE_S = 0.002


@pytest.fixture
def server() -> Iterator[PostgresService]:
    """One that may be killed."""
    with PostgresService() as service:
        with psycopg.connect(service.dsn, autocommit=True) as admin:
            admin.execute(f"create role copier login replication password '{PASSWORD}'".encode())
            admin.execute(b"alter system set logical_decoding_work_mem = '64kB'")
            admin.execute(b"select pg_reload_conf()")
            admin.execute(b"create table accounts (id int primary key, v int, note text)")
            admin.execute(
                b"insert into accounts select i, 0, repeat('n', 40) from generate_series(1, %d) i" % ROWS
            )
            admin.execute(b"create publication copy for table accounts")
            admin.execute(b"grant select on accounts to copier")
        yield service


class Writer(threading.Thread):
    """Writes transactions until it is stopped; one that the server does not confirm may have happened or not."""

    def __init__(self, server: PostgresService, seed: int) -> None:
        super().__init__(daemon=True)
        self._server, self._chance = server, random.Random(seed)
        self._stopped = threading.Event()
        self.failed: BaseException | None = None
        self.transactions = 0

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                with psycopg.connect(self._server.dsn) as session:
                    self._write(session)
            except psycopg.OperationalError:
                self._stopped.wait(0.05)  # the server is killed
            except BaseException as error:
                self.failed = error
                raise

    def stop(self) -> None:
        self._stopped.set()
        self.join(PATIENCE_S)
        assert self.failed is None, self.failed

    def _write(self, session: psycopg.Connection[Any]) -> None:
        chance = self._chance
        while not self._stopped.wait(_PAUSE_S):
            try:
                for _ in range(chance.choice([1, 1, 2, 5, 300])):
                    self._change(session, savepoint=chance.random() < 0.2)
            except psycopg.errors.DeadlockDetected:
                session.rollback()
                continue
            if chance.random() < 0.1:
                session.rollback()
            else:
                session.commit()
            self.transactions += 1

    def _change(self, session: psycopg.Connection[Any], *, savepoint: bool) -> None:
        chance = self._chance
        key, other = chance.randint(1, 2 * ROWS), chance.randint(1, 2 * ROWS)
        value = chance.randrange(1_000_000)
        if savepoint:
            session.execute(b"savepoint s")
        action = chance.random()
        if action < 0.3:
            session.execute(
                b"insert into accounts values (%s, %s, 'new') on conflict do nothing", (key, value)
            )
        elif action < 0.6:
            session.execute(b"update accounts set v = %s where id = %s", (value, key))
        elif action < 0.8:
            session.execute(b"delete from accounts where id = %s", (key,))
        elif session.execute(b"select from accounts where id = %s", (other,)).fetchone() is None:
            with suppress(psycopg.errors.UniqueViolation), session.transaction():
                session.execute(b"update accounts set id = %s where id = %s", (other, key))
        if savepoint and chance.random() < 0.5:
            session.execute(b"rollback to savepoint s")


@contextmanager
def running(job: Job) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs the job, in a group with its workers; its output goes to a file."""
    with (job.directory / "log").open("ab") as log:
        process = subprocess.Popen(job.command({}), stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_copy_that_is_killed_at_random_is_the_table(
    server: PostgresService, tmp_path: Path, profile: str
) -> None:
    kills = KILLS_LONG if profile == "long" else KILLS
    chance = random.Random(kills)
    job = Job(
        tmp_path,
        program=PROGRAM,
        arguments=(str(server.port), PASSWORD),
        pipeline="copy",
        settings={"pipeline.progress": "off", "restart-strategy.fixed-delay.attempts": 1_000},
    )
    writers = [Writer(server, seed) for seed in range(WRITERS)]
    for writer in writers:
        writer.start()
    for number in range(kills):
        with running(job) as process:
            live_for_a_while(job, process, chance, at_start=number == 0)
            if number == kills // 2:
                server.kill()
                server.restart()
                live_for_a_while(job, process, chance)
            elif number % 4 == 1:
                os.kill(chance.choice(workers_of(process.pid)), signal.SIGKILL)
                live_for_a_while(job, process, chance)
    for writer in writers:
        writer.stop()
    assert sum(writer.transactions for writer in writers) > 0
    with running(job) as process, psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(b"insert into accounts values (%s, 0, '')", (MARK,))
        ((end,),) = admin.execute("select pg_current_wal_lsn() - '0/0'::pg_lsn").fetchall()

        def confirmed() -> bool:
            assert process.poll() is None, log_of(job)
            query = "select confirmed_flush_lsn - '0/0'::pg_lsn from pg_replication_slots where slot_name = 'copy'"
            return any(lsn >= end for (lsn,) in admin.execute(query).fetchall())

        until(confirmed)
        until(
            lambda: any(
                json.loads(line)["after"] == {"id": MARK, "v": 0, "note": ""} for line in job.written()
            )
        )
        want = {row[0]: row for row in admin.execute("select id, v, note from accounts").fetchall()}
    assert replayed(job.written()) == want
    assert files_with(tmp_path, PASSWORD.encode()) == []


def live_for_a_while(
    job: Job, process: subprocess.Popen[bytes], chance: random.Random, *, at_start: bool = False
) -> None:
    """Let the job run past one more checkpoint and some time that chance decides."""
    before = newest(job)
    until(lambda: newest(job) != before or process.poll() is not None)
    if not at_start:
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0, MOST_S))
    assert process.poll() is None, log_of(job)


def newest(job: Job) -> tuple[str, int]:
    """Run and number of the newest decided checkpoint."""
    try:
        manifest = job.newest()
    except AssertionError:
        return "", 0
    return ("", 0) if manifest is None else (str(manifest.run), int(manifest.checkpoint))


def workers_of(pid: int) -> list[int]:
    """The processes that a job has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def log_of(job: Job) -> str:
    return (job.directory / "log").read_text()[-3_000:]


def files_with(directory: Path, secret: bytes) -> list[str]:
    return [str(path) for path in directory.rglob("*") if path.is_file() and secret in path.read_bytes()]


def replayed(lines: Counter[str]) -> dict[int, tuple[int, int, str]]:
    """The table that the lines make."""
    table: dict[int, tuple[int, int, str]] = {}
    assert [line for line, times in lines.items() if times > 1] == []
    events = [json.loads(line) for line in lines]
    # Of a key that moved the deletion comes first; both have the place of the update.
    events.sort(key=lambda event: (event["at"], event["op"] != "d"))
    for event in events:
        op, before, after = event["op"], event["before"], event["after"]
        if op == "d":
            assert before["id"] in table, event
            del table[before["id"]]
        else:
            assert (after["id"] in table) == (op == "u"), event
            table[after["id"]] = (after["id"], after["v"], after["note"])
    return table
