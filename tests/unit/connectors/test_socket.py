"""Lines from a real server on loopback. The source cannot go back, so the suite for sources is not for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.socket import SocketSplit, SocketTextReader, SocketTextSink, SocketTextSource
from tidegate.connectors.spi import Finished, NotYet, ReaderContext
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError, JobFailedError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid, SplitId, Subtask
from tidegate.twophase.spi import WriterContext

Serve = Callable[..., int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that sends what it is given, one connection after the other; answers its port."""
    threads: list[threading.Thread] = []

    def start(*connections: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def run() -> None:
            with listener:
                for content in connections:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(content)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        port: int = listener.getsockname()[1]
        return port

    yield start
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def open_reader(port: int, **options: object) -> SocketTextReader:
    source = SocketTextSource("127.0.0.1", port, **options)  # type: ignore[arg-type] # as the test says
    reader = source.open_reader(ReaderContext(OperatorUid("socket"), Subtask("socket", 0), 1, SYSTEM_CLOCK))
    reader.add_splits([SocketSplit(SplitId("server"), "127.0.0.1", port)])
    reader.no_more_splits()
    return reader


def lines_of(reader: SocketTextReader, *, limit: int = 100) -> list[str]:
    found: list[str] = []
    with closing(reader):
        while not isinstance(polled := reader.poll(limit), Finished):
            if isinstance(polled, Batch):
                assert len(polled) <= limit
                found += polled.values
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@pytest.mark.parametrize("executor", ["inline", "embedded"])
def test_a_program_reads_lines_until_the_server_closes(serve: Serve, executor: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": executor, "pipeline.progress": "off", "parallelism.default": 2}
    )

    words = env.socket_text_stream("127.0.0.1", serve(b"to be\nor not\nto be\n")).flat_map(str.split)

    assert sorted(words.execute_and_collect()) == ["be", "be", "not", "or", "to", "to"]


def test_what_follows_the_last_delimiter_is_a_line_once_the_connection_ends(serve: Serve) -> None:
    assert lines_of(open_reader(serve(b"one\ntwo"))) == ["one", "two"]


def test_lines_end_where_the_delimiter_says(serve: Serve) -> None:
    assert lines_of(open_reader(serve(b"one||two\n||three||"), delimiter="||")) == ["one", "two\n", "three"]


def test_a_long_text_arrives_whole_in_batches_of_the_asked_size(serve: Serve) -> None:
    sent = [str(number) for number in range(50_000)]

    assert lines_of(open_reader(serve("\n".join(sent).encode())), limit=7) == sent


def test_what_is_no_text_is_replaced(serve: Serve) -> None:
    assert lines_of(open_reader(serve(b"\xff\n"))) == ["\N{REPLACEMENT CHARACTER}"]


def test_with_retries_a_closed_connection_is_made_again(serve: Serve) -> None:
    reader = open_reader(serve(b"one\n", b"two\n"), max_retries=-1)
    found: list[str] = []

    with closing(reader):
        while len(found) < 2:
            polled = reader.poll(10)
            found += polled.values if isinstance(polled, Batch) else []

    assert found == ["one", "two"]


def test_a_quiet_server_makes_nobody_wait() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        closing(open_reader(listener.getsockname()[1])) as reader,
    ):
        answer = reader.poll(10)

        assert isinstance(answer, NotYet)
        assert answer.after_ms is not None
        assert [split.id for split in reader.snapshot(CheckpointId(1))] == ["server"]


def test_a_server_that_is_not_there_is_named_with_the_attempts() -> None:
    reader = open_reader(free_port(), max_retries=1)

    assert isinstance(reader.poll(1), NotYet)
    with pytest.raises(
        UnavailableError, match=r"socket server: no connection after 2 attempts.*start the server"
    ):
        reader.poll(1)


def test_a_program_without_a_server_fails_with_that_reason() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "restart-strategy.fixed-delay.attempts": 0}
    )

    with pytest.raises(JobFailedError, match="no connection after 1 attempts"):
        list(env.socket_text_stream("127.0.0.1", free_port()).execute_and_collect())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", 9000), "socket host is empty"),
        (("localhost", 70_000), "socket port is 70000; expected an integer from 1 to 65535"),
        (("localhost", 9000, ""), "socket delimiter is empty"),
        (("localhost", 9000, "\n", -2), "socket max_retries is -2; expected 0 or more"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SocketTextSource(*arguments)  # type: ignore[arg-type] # wrong on purpose


def test_a_sink_sends_lines_and_connects_again_when_the_connection_broke(
    writer_context: Callable[..., WriterContext],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = SocketTextSink("127.0.0.1", server.getsockname()[1], delimiter=";", max_retries=1)
        with closing(sink.open_writer(writer_context())) as writer:
            writer.write(Batch([]))
            writer.write(Batch(["a", 7]))
            first, _ = server.accept()
            assert first.recv(100) == b"a;7;"
            writer.close()
            writer.write(Batch(["b"]))
            second, _ = server.accept()
            assert second.recv(100) == b"b;"
            first.close()
            second.close()


def test_a_sink_without_a_server_says_how_much_was_not_sent(
    writer_context: Callable[..., WriterContext],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    writer = SocketTextSink("127.0.0.1", port, max_retries=1).open_writer(writer_context())

    with pytest.raises(
        UnavailableError,
        match=rf"socket 127.0.0.1:{port}: 2 lines were not sent in 2 attempts: .*start the",
    ):
        writer.write(Batch(["a", "b"]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": ""}, "the delimiter is empty"),
        ({"max_retries": -1}, "max_retries is -1; expected 0 or more"),
    ],
    ids=["delimiter", "retries"],
)
def test_options_of_a_sink_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SocketTextSink("localhost", 1, **options)
