from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from tidegate.runtime.embedded.framed_socket import FramedSocket


@pytest.fixture
def ends() -> Iterator[tuple[FramedSocket, FramedSocket]]:
    here, there = (FramedSocket(Connection(end.detach())) for end in socket.socketpair())
    yield here, there
    here.close()
    there.close()


def test_messages_of_any_size_arrive_whole_and_in_order(ends: tuple[FramedSocket, FramedSocket]) -> None:
    here, there = ends
    messages = [bytes([size % 251]) * size for size in (0, 1, 16_384, 16_385, 3_000_000, 7)]
    sender = threading.Thread(target=lambda: deque(map(here.send, messages), maxlen=0))
    sender.start()

    assert [bytes(there.receive()) for _ in messages] == messages
    sender.join()


def test_both_ends_hear_that_a_line_is_closed(ends: tuple[FramedSocket, FramedSocket]) -> None:
    here, there = ends
    here.close()
    here.close()

    with pytest.raises(EOFError, match="the other end of the socket is closed"):
        there.receive()
    with pytest.raises(OSError):  # which one is the system's choice
        there.send(b"anybody?")


def test_whoever_waits_for_a_message_is_woken_by_closing(ends: tuple[FramedSocket, FramedSocket]) -> None:
    here, _ = ends
    heard: list[type[BaseException]] = []

    def wait() -> None:
        try:
            here.receive()
        except (EOFError, OSError) as error:
            heard.append(type(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    here.close()
    waiting.join(10)

    assert not waiting.is_alive()
    assert len(heard) == 1
