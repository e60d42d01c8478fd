from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import ConfigError
from tidegate.options import Layer, as_mapping, load
from tidegate.runtime.flink_conf import flink_keys, read_file, read_layer, read_lines, translated
from tidegate.runtime.options import JobOptions

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTED = ROOT / "tests" / "golden" / "flink" / "flink-conf.yaml"
PAGE = ROOT / "docs" / "flink-conf.md"


def read(*lines: str) -> dict[str, str | None]:
    return {setting.key: setting.given for setting in read_lines("conf", lines)}


def test_a_file_with_every_documented_key_is_read() -> None:
    settings = read_file(DOCUMENTED)

    assert len(settings) == 134
    assert all(bool(setting.to) != bool(setting.why) for setting in settings)
    with pytest.warns(
        RuntimeWarning,
        match=r"without effect in tidegate, see `tidegate config`: akka\.ask\.timeout, .*zookeeper",
    ):
        options = load(JobOptions, read_layer(DOCUMENTED))
    assert (options.parallelism, options.root, options.savepoints) == (
        1,
        "hdfs:///flink/checkpoints",
        "hdfs:///flink/savepoint",
    )


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("parallelism.default: 6", "parallelism.default", 6),
        ("taskmanager.numberOfTaskSlots: 3", "taskmanager.numberOfTaskSlots", 3),
        ("taskmanager.memory.size: 512", "taskmanager.memory.managed.size", 512 * 2**20),
        ("taskmanager.memory.size: -1", "taskmanager.memory.managed.size", None),
        ("state.backend.fs.checkpointdir: file:///c", "state.checkpoints.dir", "file:///c"),
        ("state.savepoints.dir: hdfs://name:8020/s", "state.savepoints.dir", "hdfs://name:8020/s"),
        ("io.tmp.dirs: /a,/b", "taskmanager.state.local.root-dirs", ("/a", "/b")),
        ("akka.watch.heartbeat.interval: 2s", "heartbeat.interval", 2_000),
        ("akka.watch.heartbeat.pause: 70s", "heartbeat.timeout", 70_000),
        ("jobmanager.web.port: 8081", "metrics.http.port", 8081),
        ("rest.bind-port: 8081-8090", "metrics.http.port", 8081),
        ("rest.bind-address: 0.0.0.0", "metrics.http.bind-address", "0.0.0.0"),
        ("restart-strategy: failure-rate", "restart-strategy.type", "failure-rate"),
        ("restart-strategy.failure-rate.delay: 10s", "restart-strategy.failure-rate.delay", 10_000),
        (
            "restart-strategy.failure-rate.failure-rate-interval: 2 min",
            "restart-strategy.failure-rate.failure-rate-interval",
            120_000,
        ),
        (
            "restart-strategy.failure-rate.max-failures-per-interval: 4",
            "restart-strategy.failure-rate.max-failures-per-interval",
            4,
        ),
        ("restart-strategy.fixed-delay.attempts: 5", "restart-strategy.fixed-delay.attempts", 5),
        ("restart-strategy.fixed-delay.delay: 500ms", "restart-strategy.fixed-delay.delay", 500),
        ("state.backend: jobmanager", "state.backend.type", "heap"),
        ("execution.checkpointing.interval: 3 s", "execution.checkpointing.interval", 3_000),
    ],
)
def test_a_key_whose_concept_exists_sets_it(tmp_path: Path, line: str, key: str, value: Any) -> None:
    file = tmp_path / "flink-conf.yaml"
    file.write_text(line + "\n")

    assert as_mapping(load(JobOptions, read_layer(file)))[key] == value


def test_comments_quotes_and_colons_are_told_apart() -> None:
    assert read("", "# first", "  # second", 'state.savepoints.dir: "s3://a:1/b" # third') == {
        "state.savepoints.dir": "s3://a:1/b"
    }
    assert read("state.savepoints.dir:/a#b") == {"state.savepoints.dir": "/a#b"}


def test_a_value_that_repeats_its_key_is_none() -> None:
    assert read("client.rpc.port: client.rpc.port", "taskmanager.maxRegistrationDuration: Inf") == {
        "client.rpc.port": None,
        "taskmanager.maxRegistrationDuration": None,
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["akka.ask.timeot: 1 s"],
            r"unknown option 'akka\.ask\.timeot' in conf, line 1; did you mean 'akka\.ask",
        ),
        (["# a", "zzz: 1"], r"unknown option 'zzz' in conf, line 2; tidegate config lists the known keys"),
        (
            ["parallelism.default 4"],
            r"line 1 cannot be parsed; got 'parallelism\.default 4'; expected 'key: value'",
        ),
        (["parallelism:", "  default: 4"], r"line 1 cannot be parsed; got 'parallelism:'"),
        (["  parallelism.default: 4"], r"line 1 cannot be parsed.*without indentation"),
        (
            ["blob.fetch.retries: many"],
            r"'blob\.fetch\.retries' in conf, line 1 has an invalid value; got 'many'",
        ),
        (["akka.framesize: 10 miles"], r"got '10 miles b'|got '10 miles'; expected a size"),
        (["akka.tcp.timeout: soon"], r"got 'soon'; expected a duration"),
        (["akka.ssl.enabled: perhaps"], r"got 'perhaps'; expected"),
        (["yarn.heap-cutoff-ratio: 1.5"], r"got '1\.5'; expected a fraction between 0 and 1"),
        (["blob.server.port: 9-7"], r"got '9-7'; expected a port or a range"),
        (["blob.server.port: 70000"], r"got '70000'; expected a port or a range"),
        (["high-availability.zookeeper.quorum: a,,b"], r"got 'a,,b'; expected values separated by commas"),
        (
            ["state.checkpoints.dir: /a", "state.backend.fs.checkpointdir: /b"],
            r"line 2 sets 'state\.checkpoints\.dir' a second time; got 'state\.checkpoints\.dir' and 'state\.backend",
        ),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(lines: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(*lines)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml cannot be read"):
        read_file(tmp_path / "none.yaml")


def test_a_program_may_say_flinks_keys() -> None:
    said = Layer("program", {"taskmanager.memory.size": 2, "akka.throughput": "15", "parallelism.default": 2})

    with pytest.warns(
        RuntimeWarning,
        match=r"without effect in tidegate, see `tidegate config`: akka\.throughput in program",
    ):
        taken = translated(said)

    assert taken == Layer("program", {"parallelism.default": 2, "taskmanager.memory.managed.size": "2 mb"})


def test_one_setting_under_two_names_is_refused() -> None:
    said = Layer("program", {"taskmanager.memory.size": 2, "taskmanager.memory.managed.size": "3 mb"})

    with pytest.raises(ConfigError, match=r"program sets 'taskmanager\.memory\.managed\.size' twice"):
        translated(said)


def test_settings_without_flinks_keys_are_left_as_they_are() -> None:
    said = Layer("program", {"parallelism.default": 2})

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert translated(said) is said


def test_every_key_leads_to_a_setting_there_is_or_has_a_reason() -> None:
    ours = as_mapping(JobOptions())

    assert [key.name for key in flink_keys().values() if key.to not in ours and not key.why] == []


def test_the_page_lists_every_key_with_what_becomes_of_it() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| (\w+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)

    assert rows == [
        (key.name, key.kind, key.status, f"`{key.to}`" if key.to else key.why)
        for key in sorted(flink_keys().values(), key=lambda key: key.name)
    ]
