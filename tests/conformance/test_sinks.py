"""Every sink passes the kit that authors get; the oracles read files and standard output, not connectors."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import cloudpickle
import fastavro
import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as orc
import pytest

from tests.crash.programs.transactions import Files
from tidegate.connectors.base import WriteAheadSink
from tidegate.connectors.collection import CollectSink, read_collected
from tidegate.connectors.files import (
    AvroRows,
    Compaction,
    FileSink,
    FileSinkOptions,
    FunctionBuckets,
    HivePartitions,
    OrcRows,
    ParquetRows,
    RollingPolicy,
    TextLines,
)
from tidegate.connectors.functions import as_sink
from tidegate.connectors.print import PrintSink
from tidegate.connectors.socket import SocketTextSink
from tidegate.errors import UnavailableError
from tidegate.testing.claims import ClaimingSinkSuite
from tidegate.testing.sink import (
    CommitClauses,
    CommittingSinkSuite,
    CrashClauses,
    RefusedCommitClauses,
    SinkSuite,
    SinkTarget,
)


@pytest.mark.connector("files.sink")
class TestFileSinkWithJson(ClaimingSinkSuite):
    """Files: exactly once by link."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def read() -> list[Any]:
            files = [path for path in tmp_path.iterdir() if path.is_file()]
            return [msgspec.json.decode(line) for path in files for line in path.read_bytes().splitlines()]

        return SinkTarget(FileSink(tmp_path), read)


@pytest.mark.connector("files.sink")
class TestFileSinkWithText(CommittingSinkSuite):
    """The same as lines of text."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def read() -> list[Any]:
            return [line for path in tmp_path.glob("*.txt") for line in path.read_text().splitlines()]

        return SinkTarget(FileSink(tmp_path, TextLines()), read)


@pytest.mark.connector("files.sink")
class TestFileSinkWithOpenFiles(CommittingSinkSuite):
    """Files of lines that may span checkpoints, in folders, compressed; by their size they end at once."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def read() -> list[Any]:
            files = tmp_path.glob("end=*/*.txt.gz")
            return [
                line for path in files for line in gzip.decompress(path.read_bytes()).decode().splitlines()
            ]

        rolling = RollingPolicy(part_size=1, on_checkpoint=False)
        buckets = FunctionBuckets(lambda record: f"end={record[-1]}")
        options = FileSinkOptions(rolling=rolling, buckets=buckets, compression="gzip")
        return SinkTarget(FileSink(tmp_path, TextLines(), options), read)


class TestFileSinkWithoutRights(RefusedCommitClauses):
    """The folder that files are committed to cannot be made: a file is in its place."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def read() -> list[Any]:
            return [line for path in tmp_path.glob("day/*.txt") for line in path.read_text().splitlines()]

        @contextlib.contextmanager
        def refusing() -> Iterator[None]:
            (tmp_path / "day").touch()
            yield
            (tmp_path / "day").unlink()

        options = FileSinkOptions(buckets=FunctionBuckets(lambda record: "day"))
        return SinkTarget(FileSink(tmp_path, TextLines(), options), read, refusing=refusing)


@pytest.mark.connector("files.sink")
class TestFileSinkWithParquet(CommittingSinkSuite):
    """Rows in blocks, in Hive partitions, merged when they are small."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def read() -> list[Any]:
            return ds.dataset(tmp_path, partitioning="hive").to_table().to_pylist() if _any(tmp_path) else []

        def _any(directory: Path) -> bool:
            return any(directory.glob("half=*/*.parquet"))

        schema = pa.schema({"id": pa.int64()})
        options = FileSinkOptions(buckets=HivePartitions("half"), compaction=Compaction(size=1))
        records = [{"id": number, "half": number % 2} for number in range(13)]
        return SinkTarget(FileSink(tmp_path, ParquetRows(schema), options), read, records[:12], records[12])


@pytest.mark.connector("files.sink")
class TestFileSinkWithAvro(CommittingSinkSuite):
    """Records in blocks, merged when they are small."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def read() -> list[Any]:
            return [
                row for path in tmp_path.glob("*.avro") for row in fastavro.reader(BytesIO(path.read_bytes()))
            ]

        schema = {"type": "record", "name": "One", "fields": [{"name": "id", "type": "long"}]}
        sink = FileSink(
            tmp_path, AvroRows(json.dumps(schema)), FileSinkOptions(compaction=Compaction(size=1))
        )
        records = [{"id": number} for number in range(13)]
        return SinkTarget(sink, read, records[:12], records[12])


@pytest.mark.connector("files.sink")
class TestFileSinkWithOrc(CommittingSinkSuite):
    """Rows in blocks, of another format."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def read() -> list[Any]:
            return [row for path in tmp_path.glob("*.orc") for row in orc.read_table(path).to_pylist()]

        records = [{"id": number} for number in range(13)]
        sink = FileSink(tmp_path, OrcRows(pa.schema({"id": pa.int64()})))
        return SinkTarget(sink, read, records[:12], records[12])


@pytest.mark.connector("collection.sink")
class TestCollectSink(ClaimingSinkSuite):
    """Results for the client; `read_collected` is what it reads them with."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        records = [(number, {"half": number / 2}, frozenset({number})) for number in range(12)]
        return SinkTarget(CollectSink(str(tmp_path)), lambda: list(read_collected(tmp_path)), records)


@pytest.mark.connector("functions (transactions).sink")
class TestTransactionFunction(CommitClauses, CrashClauses, SinkSuite):
    """A function with transactions: exactly once; what is open is known to checkpoints, so there is no abort by name."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> Iterator[SinkTarget]:
        def read() -> list[Any]:
            return [
                msgspec.json.decode(line)
                for path in tmp_path.glob("part-*")
                for line in path.read_bytes().splitlines()
            ]

        module = sys.modules[Files.__module__]
        cloudpickle.register_pickle_by_value(module)
        yield SinkTarget(as_sink(Files(str(tmp_path))), read)
        cloudpickle.unregister_pickle_by_value(module)


class OneFileATime:
    """A system without transactions: a file for each token, made in one act."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, token: str, records: list[Any]) -> bool:
        file = self.directory / token.encode().hex()
        if file.exists():
            return False
        half = file.with_suffix(".half")
        half.write_bytes(msgspec.json.encode(records))
        half.rename(file)
        return True


@pytest.mark.connector("write-ahead.sink")
class TestWriteAheadSink(CommitClauses, CrashClauses, SinkSuite):
    """A log in the checkpoint: exactly once by tokens; nothing is outside before the commit, so nothing to abort."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> Iterator[SinkTarget]:
        def read() -> list[Any]:
            files = [path for path in tmp_path.iterdir() if not path.suffix]
            return [record for path in files for record in msgspec.json.decode(path.read_bytes())]

        module = sys.modules[__name__]
        cloudpickle.register_pickle_by_value(module)
        yield SinkTarget(WriteAheadSink(OneFileATime(tmp_path)), read)
        cloudpickle.unregister_pickle_by_value(module)


class TestWriteAheadSinkWithoutItsSystem(RefusedCommitClauses):
    """A delivery that raises `UnavailableError`."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        taken: list[Any] = []
        refusals: list[str] = []

        def deliver(token: str, records: list[Any]) -> bool:
            if refusals:
                raise UnavailableError(refusals[-1])
            taken.extend(records)
            return True

        @contextlib.contextmanager
        def refusing() -> Iterator[None]:
            refusals.append("the system is away")
            yield
            refusals.clear()

        return SinkTarget(WriteAheadSink(deliver), lambda: list(taken), refusing=refusing)


class Collector:
    """A TCP server; what it has received is what is visible."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._listener.settimeout(0.05)

    def read(self) -> list[str]:
        """Every line of every connection that waits, each read to its end."""
        with contextlib.suppress(TimeoutError):
            while True:
                connection, _ = self._listener.accept()
                with connection, connection.makefile() as stream:
                    self.lines += [line.rstrip("\n") for line in stream]
        return self.lines

    def close(self) -> None:
        self._listener.close()


@pytest.mark.connector("socket.sink")
class TestSocketTextSink(SinkSuite):
    """Lines to a server: nothing is promised, so only what holds without failures is."""

    @pytest.fixture
    def target(self) -> Iterator[SinkTarget]:
        server = Collector()
        yield SinkTarget(SocketTextSink("127.0.0.1", server.port), server.read)
        server.close()


@pytest.mark.connector("functions.sink")
class TestCallback(SinkSuite):
    """A plain function: at least once, called at once."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def note(record: str) -> None:
            with (tmp_path / "records").open("a") as file:
                file.write(f"{record}\n")

        def read() -> list[str]:
            file = tmp_path / "records"
            return file.read_text().splitlines() if file.exists() else []

        return SinkTarget(as_sink(note), read)


@pytest.mark.connector("print.sink")
class TestPrintSink(SinkSuite):
    """Standard output: at least once, nothing to commit."""

    @pytest.fixture
    def target(self, capsys: pytest.CaptureFixture[str]) -> SinkTarget:
        printed: list[str] = []

        def read() -> list[Any]:
            printed.extend(capsys.readouterr().out.splitlines())
            return [re.sub(r"^\d+> ", "", line) for line in printed]

        return SinkTarget(PrintSink(), read)


FAULTS = {
    "TestLosesCommits": "test_a_commit_makes_every_record_visible_once",
    "TestCommitsTwice": "test_a_second_commit_answers_already_committed",
    "TestCopiesAndThenMarks": "test_a_process_killed_inside_a_commit_neither_loses_nor_doubles",
    "TestMarksAndThenCopies": "test_a_process_killed_inside_a_commit_neither_loses_nor_doubles",
    "TestDuplicatesLate": "test_a_commit_makes_every_record_visible_once",
    "TestIsVisibleBeforeTheCommit": "test_nothing_is_visible_before_the_commit",
    "TestAbortsTheWorkOfOthers": "test_abort_removes_only_its_own",
    "TestRemovesWhatANewerOwnerMade": "test_an_owner_replaced_before_it_acts_does_not_affect_the_new_one",
    "TestRemovesWithoutACheck": "test_a_replaced_owner_that_checks_removes_nothing",
    "TestAbortsNothing": "test_abort_removes_output_that_is_not_kept",
    "TestAbortsWhatIsVisible": "test_abort_never_touches_what_is_visible",
    "TestNamesAttemptsAlike": "test_two_attempts_of_an_epoch_do_not_clash",
    "TestNamesBranchesAlike": "test_a_branch_writes_in_addition_to_the_committed_history",
    "TestForgetsOtherWriters": "test_abort_removes_output_of_removed_writers",
    "TestAbortsWhenItCloses": "test_an_abort_of_a_killed_process_is_complete",
    "TestLeavesALockOpen": "test_a_process_killed_before_its_first_record_blocks_no_writer",
    "TestLosesOtherWriters": "test_fewer_writers_continue_after_a_rescale",
    "TestClaimsNothing": "test_another_storage_is_refused_before_any_change",
    "TestAbortsWithoutLooking": "test_another_storage_is_refused_before_any_change",
    "TestLetsAClaimGo": "test_a_claim_outlives_its_output",
    "TestTakesOverForAMoment": "test_a_takeover_replaces_the_claim",
    "TestClaimsAtTheSameMoment": "test_of_several_concurrent_claims_one_is_accepted",
    "TestRefusesWithoutAReason": "test_a_commit_makes_every_record_visible_once",
    "TestForgetsRowsOfColumns": "test_a_commit_makes_every_record_visible_once",
    "TestForgetsTheAgeOfItsWork": "test_prepared_work_expires_by_the_age_of_its_first_record",
    "TestKeepsPreparedWorkInItsProcess": "test_another_process_commits_what_a_killed_one_prepared",
}
"""The clause that must find each fault of `broken_sinks.py`."""


def test_the_kit_finds_every_fault(broken_clauses: Callable[[Path, dict[str, str]], set[str]]) -> None:
    found = broken_clauses(Path(__file__).with_name("broken_sinks.py"), FAULTS)

    assert found == {f"{name}::{clause}" for name, clause in FAULTS.items()}
