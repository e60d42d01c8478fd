"""What it costs to hand records to another process, and what a second process gains.

Exchange: batches of five-field records are keyed, dealt to two receivers, encoded, sent over the socket of two peers,
decoded and acknowledged; beside it the same shares are encoded and decoded by the same codec and nothing else. Both run
in one process, so its CPU time is that of both ends.

Scaling: a keyed job from memory whose function takes about 5 microseconds, in one process and in two, through the public
API. The bar is on CPU seconds of all processes, because other programs share the cores; the wall time is told as well.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Listener
from typing import Any

from benchmarks.harness import Bar, Case, Report, compare, main
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.ids import OperatorUid
from tidegate.runtime.embedded.messages import Granted, Inbox
from tidegate.runtime.embedded.peers import Peers, RemoteChannel
from tidegate.runtime.embedded.taskmanager import collect_rarely
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import Hash
from tidegate.runtime.task.exchange import ChannelId, RecordWriter
from tidegate.runtime.task.frames import Frame
from tidegate.runtime.task.routing import router
from tidegate.serde import exchange_codec
from tidegate.types import Types

BATCH, BATCHES = 16_384, 2
"""What sources arrive at under load."""
WINDOW = 131_072
RECORDS, KEYS, TURNS = 1_000_000, 1_000, 150
CUSTOMERS = 10_000
EXCHANGE_LIMIT, CPU_LIMIT = 1.5, 1.2


@dataclass
class Order:
    id: int
    name: str
    amount: float
    paid: bool
    country: str


def order(index: int) -> Order:
    return Order(
        index, f"customer-{index % CUSTOMERS}", index * 0.5, index % 3 == 0, ("DE", "FR", "US")[index % 3]
    )


class Exchange:
    """Both ends of one exchange between two workers, worked by one thread in turns."""

    def __init__(self, edge: JobEdge, directory: str) -> None:
        self._here, self._there = Inbox(), Inbox()
        addresses = [f"{directory}/{worker}" for worker in (0, 1)]
        self._sending = Peers(0, addresses, b"secret", self._here)
        self._receiving = Peers(1, addresses, b"secret", self._there)
        self._listener = Listener(addresses[1], "AF_UNIX", authkey=b"secret")
        self._receiving.listen(self._listener)
        ids = [ChannelId(edge.name, 0, target) for target in (0, 1)]
        for channel in ids:
            self._receiving.receive(channel, edge, 0)
        self._channels: dict[int, RemoteChannel] = {
            each.target: self._sending.sender(each, edge, 1) for each in ids
        }
        self._gate = RecordWriter(edge, 0, self._channels)

    def carry(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._gate.emit(batch)
            for _ in self._channels:
                self._take_one()
        assert all(channel.credit.used == 0 for channel in self._channels.values())

    def close(self) -> None:
        self._listener.close()
        self._sending.close()
        self._receiving.close()

    def _take_one(self) -> None:
        frame = self._there.get()
        assert isinstance(frame, Frame)
        element = self._receiving.element(frame)
        assert isinstance(element, Batch)
        self._receiving.grant(frame.channel, len(element), WINDOW)
        granted = self._here.get()
        assert isinstance(granted, Granted)
        self._sending.granted(granted)


class Busy(KeyedProcessFunction):
    """Takes about 5 microseconds for a record."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        for _ in range(TURNS):
            pass


def build(rounds: int) -> Report:
    collect_rarely()
    edge = JobEdge(
        "a", OperatorUid("a"), "b", Hash(lambda each: each.name, Types.STRING()), Types.of(Order), 2, 2, 128
    )
    batches = [Batch([order(b * BATCH + i) for i in range(BATCH)]) for b in range(BATCHES)]
    route, codec = router(edge, 0), exchange_codec(edge.value_type)
    shares = [share for batch in batches for _, share in route(batch)]

    def codec_alone() -> None:
        for share in shares:
            codec.decode_batch(codec.encode_batch(share.rows()))

    work = BATCH * BATCHES
    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.closing(Exchange(edge, directory)) as exchange,
    ):
        report = compare(
            "exchange",
            [
                Case("codec alone", codec_alone, work=work),
                Case("key, deal, send, receive", lambda: exchange.carry(batches), work=work),
            ],
            [Bar("key, deal, send, receive", "codec alone", EXCHANGE_LIMIT)],
            rounds=rounds,
            clock="cpu_s",
        )
    scaling = compare(
        "scaling",
        [Case("one process", job(1), work=RECORDS), Case("two processes", job(2), work=RECORDS)],
        [Bar("two processes", "one process", CPU_LIMIT)],
        rounds=max(3, rounds // 10),
        seconds=0,
        clock="cpu_s",
    )
    report.cases += scaling.cases
    report.verdicts += scaling.verdicts
    return report


def job(processes: int) -> Callable[[], object]:
    numbers = list(range(RECORDS))

    def run() -> object:
        env = StreamExecutionEnvironment.get_execution_environment(
            {"execution.target": "embedded", "pipeline.progress": "off", "parallelism.default": processes}
        )
        keyed = env.from_collection(numbers, Types.LONG()).key_by(lambda number: number % KEYS, Types.LONG())
        return list(keyed.process(Busy()).execute_and_collect())

    return run


if __name__ == "__main__":
    main(build)
