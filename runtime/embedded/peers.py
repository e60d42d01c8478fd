"""Data plane between the workers of a job: one connection per pair, with batches and credit.

Threads only move bytes: each connection has one that reads and puts what it read into the worker's inbox. Writing is
done by the worker's own thread; credit bounds what can be on the way, and since every worker always reads, a write
never waits for good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener

import msgspec

from tidegate.elements import Batch, Element
from tidegate.errors import UnavailableError
from tidegate.runtime.embedded.framed_socket import FramedSocket
from tidegate.runtime.embedded.messages import Granted, Hello, Inbox, decode
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.schedule.slots import task_manager_name
from tidegate.runtime.task.credit import Credit
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.frames import EdgeCodec, Frame

__all__ = ["LocalChannel", "Peers", "RemoteChannel"]


class LocalChannel:
    """A channel between two subtasks of one worker: the receiver's queue."""

    def __init__(self, channel: ChannelId, deliver: Callable[[ChannelId, Element], None]) -> None:
        self.credit = Credit()
        self._channel = channel
        self._deliver = deliver

    def send(self, element: Element) -> None:
        """Put an element into the receiver's queue."""
        if isinstance(element, Batch):
            self.credit.used += len(element)
        self._deliver(self._channel, element)


class RemoteChannel:
    """A channel to a subtask of another worker."""

    def __init__(self, channel: ChannelId, wire: EdgeCodec, line: FramedSocket, place: int) -> None:
        self.credit = Credit()
        self._channel = channel
        self._wire = wire
        self._line = line
        self._place = place

    def send(self, element: Element) -> None:
        """Write an element to the connection.

        Raises:
            UnavailableError: the other worker has ended.
        """
        data = self._wire.encode(self._channel, element)
        try:
            self._line.send(data)
        except OSError as error:
            raise UnavailableError(f"{task_manager_name(self._place)} cannot be reached: {error}") from error
        if isinstance(element, Batch):
            self.credit.used += len(element)


class Peers:
    """The other workers, as seen by one."""

    def __init__(self, me: int, addresses: Sequence[str], token: bytes, inbox: Inbox) -> None:
        self._me = me
        self._addresses = addresses
        self._token = token
        self._inbox = inbox
        self._to: dict[int, FramedSocket] = {}
        self._from: dict[int, FramedSocket] = {}
        self._senders: dict[ChannelId, RemoteChannel] = {}
        self._wires: dict[str, EdgeCodec] = {}
        self._places: dict[ChannelId, int] = {}

    def listen(self, listener: Listener) -> None:
        """Accept the connections of the others for as long as the listener lives."""
        _thread(lambda: self._accept(listener))

    def sender(self, channel: ChannelId, edge: JobEdge, place: int) -> RemoteChannel:
        """The sending end of a channel to another worker; connects to it on first use.

        Raises:
            UnavailableError: the other worker has ended.
        """
        if place not in self._to:
            try:
                line = FramedSocket(Client(self._addresses[place], "AF_UNIX", authkey=self._token))
                line.send(msgspec.msgpack.encode(Hello(self._me)))
            except (OSError, EOFError) as error:
                raise UnavailableError(f"{task_manager_name(place)} cannot be reached: {error}") from error
            self._to[place] = line
            _thread(lambda: self._read(line))
        sender = RemoteChannel(channel, self._wire(edge), self._to[place], place)
        self._senders[channel] = sender
        return sender

    def receive(self, channel: ChannelId, edge: JobEdge, place: int) -> None:
        """Expect elements of a channel from another worker."""
        self._wire(edge)
        self._places[channel] = place

    def element(self, frame: Frame) -> Element:
        """What a frame holds."""
        return self._wires[frame.channel.edge].element(frame)

    def grant(self, channel: ChannelId, records: int, limit: int) -> None:
        """Tell the sender of a channel how many records are worked off, and how many it may have on the way."""
        granted = Granted(channel, records, limit)
        with suppress(OSError):  # the sender is gone; the coordinator sees that for itself
            self._from[self._places[channel]].send(msgspec.msgpack.encode(granted))

    def granted(self, granted: Granted) -> None:
        """Some of our records are worked off."""
        self._senders[granted.channel].credit.granted(granted.records, granted.limit)

    def close(self) -> None:
        """Close all connections."""
        for line in (*self._to.values(), *self._from.values()):
            line.close()

    def _wire(self, edge: JobEdge) -> EdgeCodec:
        return self._wires.setdefault(edge.name, EdgeCodec(edge))

    def _accept(self, listener: Listener) -> None:
        while True:
            try:
                line = FramedSocket(listener.accept())
            except AuthenticationError:
                continue
            except OSError:
                return
            hello = decode(line.receive())
            if isinstance(hello, Hello):
                self._from[hello.worker] = line
                _thread(lambda line=line: self._read(line))  # type: ignore[misc] # bound per line

    def _read(self, line: FramedSocket) -> None:
        with suppress(OSError, EOFError):  # the other end is gone; the coordinator sees that for itself
            while True:
                message = decode(line.receive())
                if not isinstance(message, Hello):
                    self._inbox.put(message)


def _thread(target: Callable[[], None]) -> None:
    threading.Thread(target=target, daemon=True, name="tidegate-data").start()
