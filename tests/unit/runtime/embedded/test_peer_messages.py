from __future__ import annotations

import msgspec
import pytest

from tidegate.elements import EndOfInput
from tidegate.runtime.embedded.messages import Granted, Hello, decode
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.frames import Frame

CHANNEL = ChannelId("a->b", 1, 2)


@pytest.mark.parametrize(
    "message",
    [Hello(3), Granted(CHANNEL, 7, 500), Frame(CHANNEL, EndOfInput())],
    ids=lambda each: type(each).__name__,
)
def test_what_workers_say_to_each_other_is_told_apart(message: Hello | Granted | Frame) -> None:
    assert decode(msgspec.msgpack.encode(message)) == message
