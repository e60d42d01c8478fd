"""The examples that PyFlink ships run unchanged on worker processes, and print what their data imply.

They come from the package itself, downloaded once (3 MB, nothing of it is installed or imported). Those that need
another system, or the Table API, must say what is missing.
"""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tidegate.testing.services import KafkaService

VERSION = (
    (Path(__file__).parents[1] / "golden" / "pyflink" / "names.txt")
    .read_text(encoding="utf-8")
    .splitlines()[0]
    .removeprefix("# apache-flink ")
)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate" / f"pyflink-{VERSION}"
FOLDER = Path("pyflink", "examples", "datastream")

PHONES = {"Flink": (1, 123, "Germany", "Berlin"), "hello": (2, 135, "China", "Shanghai")} | {
    "world": (3, 124, "USA", "NewYork"),
    "PyFlink": (4, 32, "China", "Hangzhou"),
}

PRINTED: dict[str, list[str]] = {
    "basic_operations.py": [
        *(
            f"""({number}, '{{"name": "{name}", "tel": {phone + 1}, """
            f""""addr": {{"country": "{country}", "city": "{city}"}}}}')"""
            for name, (number, phone, country, city) in [*PHONES.items(), ("Flink", PHONES["Flink"])]
        ),
        "('Germany', 123)",
        "('China', 135)",
        "('USA', 124)",
        "('China', 167)",
    ],
    "process_json_data.py": [
        str((number, {"name": name, "tel": phone + 1, "addr": {"country": country, "city": city}}))
        for name, (number, phone, country, city) in PHONES.items()
        if country == "China"
    ],
    "windowing/session_with_dynamic_gap_window.py": ["('hi', 1, 30, 7)"],
    "windowing/session_with_gap_window.py": ["('hi', 1, 14, 6)", "('hi', 15, 20, 1)"],
    "windowing/sliding_time_window.py": [
        f"('hi', {start}, {start + 5}, {count})"
        for start in range(-4, 16, 2)
        if (count := sum(start <= time < start + 5 for time in (1, 2, 3, 4, 5, 8, 9, 15)))
    ],
    "windowing/tumbling_count_window.py": ["('hi', 4)", "('hello', 6)", "('hello', 12)"],
    "windowing/tumbling_time_window.py": ["('hi', 0, 5, 4)", "('hi', 5, 10, 3)", "('hi', 15, 20, 1)"],
}

EXPIRING = {"event_time_timer.py", "state_access.py"}
"""Those whose state lives for a while only."""

GREETINGS = [(1, "hi"), (2, "hello"), (3, "hi"), (4, "hello"), (5, "hi"), (6, "hello"), (6, "hello")]
TABLES = "pyflink.table is not available: not implemented yet: the Table API"

FROM_KAFKA = {
    "connectors/kafka_avro_format.py": [f"Row(id={number}, name={name!r})" for number, name in GREETINGS],
    "connectors/kafka_bytearray_format.py": [
        str({"id": number, "country": country}).replace("'", '"')
        for number, country in ((1, "USA"), (2, "Canada"), (3, "Germany"))
    ],
    "connectors/kafka_csv_format.py": [f"Row({number}, {name!r})" for number, name in GREETINGS],
    "connectors/kafka_json_format.py": [f"Row({number}, {name!r})" for number, name in GREETINGS],
}
"""What examples print of what they have written to Kafka before."""

TO_KAFKA = "connectors/kafka_row_field_extractor_example.py"

REFUSED = {
    "asyncio/remote_model_inference.py": TABLES,
    "connectors/elasticsearch.py": "connectors.elasticsearch is not available: not implemented yet: an Elasticsearch connector",
    "connectors/pulsar.py": "connectors.pulsar is not available: not implemented yet: a Pulsar connector",
    "streaming_word_count.py": TABLES,
}

pytestmark = [pytest.mark.setup, pytest.mark.processes]


@pytest.fixture(scope="module")
def examples() -> Path:
    """The folder of the examples of the package."""
    if not (CACHE / FOLDER).is_dir():
        _download(CACHE)
    return CACHE / FOLDER


def _download(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    wanted = ["--no-deps", "--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp"]
    platforms = ["--platform", "manylinux2014_x86_64", "--dest", str(target), f"apache-flink=={VERSION}"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", *wanted, *platforms],
        capture_output=True,
        text=True,
        check=False,
    )
    wheels = sorted(target.glob("apache_flink-*.whl"))
    if done.returncode or not wheels:
        pytest.fail(
            f"the wheel of apache-flink {VERSION} is neither in {target} nor on a package index: {done.stderr}"
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(
            target, [name for name in wheel.namelist() if name.startswith(f"{FOLDER.as_posix()}/")]
        )


def words(examples: Path) -> list[str]:
    """The counts of the words that the word count carries in its own text, read by somebody else."""
    (lines,) = [
        ast.literal_eval(node.value)
        for node in ast.parse((examples / "word_count.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "word_count_data"
    ]
    return [str(pair) for pair in Counter(" ".join(lines).split()).items()]


def command(example: Path, *arguments: str) -> list[str]:
    options = [
        "-P",
        "-m",
        "tidegate.runtime.cli.main",
        "run",
        "--compat",
        "pyflink",
        "-Dpipeline.progress=off",
    ]
    return [sys.executable, *options, "-Dparallelism.default=2", str(example), *arguments]


def run(example: Path, state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(example, *arguments),
        cwd=state,
        env=os.environ | {"XDG_STATE_HOME": str(state)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def records(output: str) -> list[str]:
    """The printed lines without the number of the subtask and without what the example itself says."""
    lines = [re.sub(r"^\d+> ", "", line) for line in output.splitlines()]
    return sorted(line for line in lines if not line.startswith(("Printing result", "Use --", "Executing ")))


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_its_data_imply(examples: Path, tmp_path: Path, name: str) -> None:
    done = run(examples / name, tmp_path)

    assert done.returncode == 0, done.stderr
    assert records(done.stdout) == sorted(PRINTED[name])


def test_an_example_writes_files_where_it_is_told_to(examples: Path, tmp_path: Path) -> None:
    done = run(
        examples / "windowing" / "tumbling_time_window.py", tmp_path, "--output", str(tmp_path / "out")
    )

    assert done.returncode == 0, done.stderr
    files = list((tmp_path / "out").rglob("prefix*.ext"))
    assert records("".join(file.read_text(encoding="utf-8") for file in files)) == sorted(
        PRINTED["windowing/tumbling_time_window.py"]
    )


def test_the_word_count_runs_as_a_batch_and_tells_each_word_once(examples: Path, tmp_path: Path) -> None:
    done = run(examples / "word_count.py", tmp_path)

    assert done.returncode == 0, done.stderr
    assert records(done.stdout) == sorted(words(examples))


def test_the_word_count_reads_the_file_it_is_given(examples: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("to be or\nnot to be\n", encoding="utf-8")

    done = run(examples / "word_count.py", tmp_path, "--input", str(tmp_path / "in"))

    assert done.returncode == 0, done.stderr
    assert records(done.stdout) == ["('be', 2)", "('not', 1)", "('or', 1)", "('to', 2)"]


@pytest.mark.parametrize("name", sorted(EXPIRING))
def test_an_example_with_state_that_expires_adds_everything_up(
    examples: Path, tmp_path: Path, name: str
) -> None:
    done = run(examples / name, tmp_path)

    assert done.returncode == 0, done.stderr
    sums = [ast.literal_eval(line) for line in records(done.stdout)]
    assert Counter(who for who, _ in sums) == {"Alice": 4, "Bob": 4}
    assert max(total for who, total in sums if who == "Alice") == pytest.approx(163.3)
    assert max(total for who, total in sums if who == "Bob") == pytest.approx(102.5)


@pytest.mark.service
def test_examples_that_write_to_kafka_read_it_again_without_a_jar(
    examples: Path, tmp_path: Path, kafka: KafkaService, profile: str
) -> None:
    for name in sorted(FROM_KAFKA) if profile == "long" else ["connectors/kafka_avro_format.py"]:
        example = tmp_path / Path(name).name
        example.write_text(
            (examples / name).read_text(encoding="utf-8").replace("localhost:9092", kafka.address)
        )
        with subprocess.Popen(
            command(example),
            cwd=tmp_path,
            env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            late = threading.Timer(120, process.kill)
            late.start()
            try:
                # It reads for ever, so it is stopped when everything is there.
                shown = (line for line in process.stdout or () if line[0].isdigit())
                printed = list(islice(shown, len(FROM_KAFKA[name])))
            finally:
                late.cancel()
                process.send_signal(signal.SIGINT)
            assert records("".join(printed)) == sorted(FROM_KAFKA[name])
            assert "jars have no effect" in process.communicate()[1]


@pytest.mark.service
def test_an_example_that_writes_fields_of_rows_to_kafka_writes_them_as_keys_and_values(
    examples: Path, tmp_path: Path, kafka: KafkaService
) -> None:
    topic = kafka.new_topic()
    text = (examples / TO_KAFKA).read_text(encoding="utf-8").replace("localhost:9092", kafka.address)
    (tmp_path / "example.py").write_text(text.replace("row-extractor-example", topic))

    done = run(tmp_path / "example.py", tmp_path)

    assert done.returncode == 0, done.stderr
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "fields"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(4, timeout=30)
    consumer.close()
    assert [(message.key(), json.loads(message.value())["type"]) for message in messages] == [
        (b"user-001", "purchase"),
        (b"user-002", "view"),
        (b"user-001", "add_to_cart"),
        (b"user-003", "purchase"),
    ]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_an_example_that_needs_more_says_what_is_missing(examples: Path, tmp_path: Path, name: str) -> None:
    done = run(examples / name, tmp_path)

    assert done.returncode != 0
    assert REFUSED[name] in done.stderr.splitlines()[-1]


def test_no_example_is_left_out(examples: Path) -> None:
    shipped = {path.relative_to(examples).as_posix() for path in examples.rglob("*.py")}

    assert {
        name for name in shipped if not name.endswith("__init__.py")
    } == PRINTED.keys() | FROM_KAFKA.keys() | REFUSED.keys() | EXPIRING | {"word_count.py", TO_KAFKA}
