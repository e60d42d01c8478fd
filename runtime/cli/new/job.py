"""The files of `tidegate new job NAME`: a program in named steps, its test, its project, and sample input."""

from __future__ import annotations

from typing import Final

__all__ = ["TEMPLATES"]

_STEPS = '''\
@dataclass(frozen=True)
class Payment:
    """One record of the input; anything else stops the job, which names its place."""

    account: str
    amount: int


class Totals(KeyedProcessFunction):
    """Adds up the payments of each account."""

    total = state.Value(int, default=0)

    def process_element(self, value: Payment, ctx: Any) -> Iterator[dict[str, Any]]:
        """Bring the new total of the account."""
        self.total.update(self.total.value() + value.amount)
        yield {"account": value.account, "total": self.total.value()}


def totals(payments: DataStream) -> DataStream:
    """The steps between source and sink; the test runs them without either.

    State is found by the `uid` of its step: keep it, and the step can be renamed.
    """
    by_account = payments.key_by(lambda payment: payment.account)
    return by_account.process(Totals()).name("totals").uid("totals")
'''

_FILES_JOB = (
    '''\
"""Adds up payments per account, from the files of `input/` to those of `output/`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import (
    DataStream,
    FileSink,
    JsonLines,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    state,
)
from tidegate.connectors.files import JsonFormat, RecordFileSource

HERE = Path(__file__).resolve().parent


'''
    + _STEPS
    + '''

def main() -> None:
    """Build the program and run it until it is stopped."""
    env = StreamExecutionEnvironment.get_execution_environment()
    # Without `watch_ms` the job reads the existing files and ends.
    source = RecordFileSource(str(HERE / "input"), JsonFormat(Payment), watch_ms=1_000)
    payments = env.from_source(source, source_name="payments").uid("payments")
    output = FileSink(str(HERE / "output"), JsonLines())
    totals(payments).sink_to(output).name("output").uid("output")
    env.execute("@name@")


if __name__ == "__main__":
    main()
'''
)

_KAFKA_JOB = (
    '''\
"""Adds up payments per account, from one topic of Kafka to another, exactly once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidegate import (
    DataStream,
    KafkaSink,
    KafkaSource,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    state,
)
from tidegate.connectors.kafka import JsonValues, KafkaRecordSerializationSchema

BROKERS = os.environ.get("KAFKA_BROKERS", "localhost:9092")
PAYMENTS, TOTALS = "@name@-payments", "@name@-totals"


'''
    + _STEPS
    + '''

def main() -> None:
    """Build the program and run it until it is stopped."""
    env = StreamExecutionEnvironment.get_execution_environment()
    source = KafkaSource(BROKERS, topics=(PAYMENTS,), deserializer=JsonValues(Payment))
    payments = env.from_source(source, source_name="payments").uid("payments")
    # Readers of committed records see the totals of a checkpoint all at once.
    schema = KafkaRecordSerializationSchema(
        TOTALS, key=lambda total: total["account"].encode()
    )
    output = KafkaSink(BROKERS, schema)
    totals(payments).sink_to(output).name("output").uid("output")
    env.execute("@name@")


if __name__ == "__main__":
    main()
'''
)

_SEND = '''\
"""Creates both topics, unless they exist, and sends `sample/payments.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from job import BROKERS, PAYMENTS, TOTALS

SAMPLE = Path(__file__).resolve().parent / "sample" / "payments.jsonl"


def main() -> None:
    """Make the topics and send."""
    admin = AdminClient({"bootstrap.servers": BROKERS})
    topics = [NewTopic(topic, 2, 1) for topic in (PAYMENTS, TOTALS)]
    for made in admin.create_topics(topics).values():
        try:
            made.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    producer = Producer({"bootstrap.servers": BROKERS})
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    for line in lines:
        # Payments of an account stay in order, because a key goes to one partition.
        producer.produce(PAYMENTS, line, key=json.loads(line)["account"])
    if producer.flush(30) > 0:
        raise SystemExit(f"no answer from {BROKERS}; is the broker running?")
    print(f"{len(lines)} payments are sent to {PAYMENTS} at {BROKERS}")


if __name__ == "__main__":
    main()
'''

_TEST = '''\
"""The steps of the job, without source and sink: records go in one by one."""

from __future__ import annotations

from tidegate.testing.harness import Harness

from job import Payment, totals


def test_payments_add_up_per_account() -> None:
    with Harness(totals) as harness:
        for payment in (Payment("ann", 5), Payment("bob", 7), Payment("ann", 3)):
            harness.push(payment)

        assert harness.take() == [
            {"account": "ann", "total": 5},
            {"account": "bob", "total": 7},
            {"account": "ann", "total": 8},
        ]


def test_totals_go_on_from_a_snapshot_at_another_parallelism() -> None:
    with Harness(totals) as harness:
        harness.push(Payment("ann", 5))
        saved = harness.snapshot()

    with Harness(totals, parallelism=2, restored=saved) as harness:
        harness.push(Payment("ann", 3))

        assert harness.take() == [{"account": "ann", "total": 8}]
'''

_SAMPLE = """\
{"account": "ann", "amount": 5}
{"account": "bob", "amount": 7}
{"account": "ann", "amount": 3}
{"account": "eve", "amount": 20}
{"account": "bob", "amount": 1}
{"account": "ann", "amount": 2}
"""

_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "@name@"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["tidegate@extra@>=@version@"]

[project.optional-dependencies]
test = ["tidegate[testing]"]

[tool.setuptools]
py-modules = [@modules@]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
"""

_COMMANDS = """\
| command | does |
|---|---|
| `pytest` | runs the steps without source and sink |
| `tidegate check job.py` | tests before a start whether the job can run: storage, state, input and output |
| `python job.py` | runs the job until Ctrl-C, which takes a final checkpoint |
| `tidegate run -D parallelism.default=1 job.py` | runs the job with settings |
| `tidegate info @name@` | shows the state of the job, from another shell; `--watch` refreshes it every second |
| `tidegate stop @name@` | takes a final checkpoint and ends the job; the next start resumes from it |
| `tidegate plan job.py` | shows what the next start would restore, after a change of the program |

Kill the job with `kill -9` at any moment and start it again: it resumes from its newest checkpoint, and each payment
counts once. Checkpoints are below `~/.local/state/tidegate`; `tidegate run --fresh job.py` starts without state.
"""

_FILES_README = (
    """\
# @name@

Adds up payments per account, from files to files: lines such as `{"account": "ann", "amount": 5}` in the files of
`input/` become the new total of each account in the files of `output/`.

```
pip install -e '.[test]'
python job.py
```

Output appears with each checkpoint, every 10 seconds. While the job runs, copy more files into `input/`, or better: write
them elsewhere and move them there, because a file is read once, as it is when it is seen.

"""
    + _COMMANDS
)

_KAFKA_README = (
    """\
# @name@

Adds up payments per account, from Kafka to Kafka, exactly once: values such as `{"account": "ann", "amount": 5}` in the
topic `@name@-payments` become the new total of each account in the topic `@name@-totals`.

```
pip install -e '.[test]'
tidegate dev kafka --port 9092   # a broker for tests, in another shell (Java 17); or set KAFKA_BROKERS
python send.py                   # creates both topics and sends sample/payments.jsonl
python job.py
```

Totals appear with each checkpoint, every 10 seconds. Readers need `isolation.level=read_committed`, which is not the default
of Java's client and of its console consumer.

"""
    + _COMMANDS
)

_IGNORED = "__pycache__/\n*.egg-info/\nbuild/\n.pytest_cache/\n"


def _project(extra: str, *modules: str) -> str:
    named = ", ".join(f'"{module}"' for module in modules)
    return _PROJECT.replace("@extra@", extra).replace("@modules@", named)


TEMPLATES: Final = {
    "files": {
        "README.md": _FILES_README,
        "pyproject.toml": _project("", "job"),
        "job.py": _FILES_JOB,
        "tests/test_job.py": _TEST,
        "input/payments.jsonl": _SAMPLE,
        ".gitignore": f"{_IGNORED}output/\n",
    },
    "kafka": {
        "README.md": _KAFKA_README,
        "pyproject.toml": _project("[kafka]", "job", "send"),
        "job.py": _KAFKA_JOB,
        "send.py": _SEND,
        "tests/test_job.py": _TEST,
        "sample/payments.jsonl": _SAMPLE,
        ".gitignore": _IGNORED,
    },
}
"""The files of each template by path; `@name@` and `@version@` are filled in."""
