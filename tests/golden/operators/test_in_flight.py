"""Records on their way, as earlier versions stored them, still load; what has no columns of later versions is stored alike."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.unit.runtime.task.test_in_flight import FILES, backlog, rest
from tidegate.elements import Batch, Idle, RecordOrigin, RowKind, Watermark
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.row import Row
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.graph.transformations import Hash
from tidegate.runtime.operators.functions import MAP
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.in_flight import Recording

FILE = Path(__file__).parent / "in-flight-1.msgpack"
UID = OperatorUid("to")


def recorded(rows: Batch) -> bytes:
    edge = JobEdge("from", OperatorUid("from"), UID, Hash(len), None, 2, 1, 128)
    step = StreamNode(UID, "to", MAP, None, 1, 128, None)
    vertex = JobVertex(UID, "to", {UID: step}, {UID: ()}, 1, 128, (edge,), ())
    first, second = (ChannelId(edge.name, source, 0) for source in (0, 1))
    recording = Recording(
        CheckpointId(7), vertex, 0, {first: (3, False), second: (-5, True)}, {first, second}
    )
    origins = [RecordOrigin("src", "part-0", 9), None]
    recording.add(first, Batch(["a", "bb"], [4, 5], ["k", "l"], origins=origins))
    recording.add(first, Watermark(4))
    recording.add(second, Idle(False))
    recording.add(second, rows)
    (data,) = recording.encoded().values()
    return data


ROWS = [Row.of([1, "x"], ["id", "name"], RowKind.DELETE), ("ccc", 1)]


def test_what_an_earlier_version_stored_comes_back() -> None:
    inbound = JobEdge("from", OperatorUid("from"), UID, Hash(len), None, 2, 1, 128)
    found = [each.element for each in rest(backlog(inbound, 0, 1, (FILES.store(FILE.read_bytes()),)))]

    origins = [RecordOrigin("src", "part-0", 9), None]
    assert found == [
        Watermark(3),
        Batch(["a", "bb"], [4, 5], [1, 2], origins=origins),
        Watermark(4),
        Batch(ROWS, keys=[2, 2]),
    ]


def test_what_has_no_kinds_is_stored_as_before() -> None:
    assert recorded(Batch(ROWS)) == FILE.read_bytes()


def test_kinds_are_stored_as_numbers_beside_what_was_there_before() -> None:
    before = msgspec.msgpack.decode(FILE.read_bytes())
    before["lanes"][1]["elements"][1]["columns"] = {"kinds": [3, 0]}

    after = recorded(Batch(ROWS, kinds=[RowKind.DELETE, RowKind.INSERT]))

    assert msgspec.msgpack.decode(after) == before
