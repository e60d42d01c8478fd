from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.common import Types
from tidegate.elements import MAX_WATERMARK, Barrier, Batch, Control, EndOfInput, Idle, Watermark
from tidegate.errors import RecordError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import Hash, Rebalance
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.frames import EdgeCodec, Frame
from tidegate.types import TypeInformation

CHANNEL = ChannelId("a->b", 1, 2)


def wire(value_type: TypeInformation | None = None, key_type: TypeInformation | None = None) -> EdgeCodec:
    return EdgeCodec(JobEdge("a", OperatorUid("a"), "b", Hash(abs, key_type), value_type, 2, 3, 128))


def travelled(edge: EdgeCodec, element: Batch | Control) -> Any:
    frame = msgspec.msgpack.decode(edge.encode(CHANNEL, element), type=Frame)
    assert frame.channel == CHANNEL
    return edge.element(frame)


@pytest.mark.parametrize(
    "control",
    [
        Watermark(MAX_WATERMARK),
        Watermark(-1),
        Barrier(CheckpointId(7)),
        Barrier(CheckpointId(7), CheckpointId(6)),
        Idle(True),
        EndOfInput(),
    ],
    ids=repr,
)
def test_control_elements_arrive_as_they_were_sent(control: Control) -> None:
    assert travelled(wire(), control) == control


VALUES: list[Any] = [
    (1, "a"),
    {"k": [1, 2]},
    {1, 2},
    Decimal("1.10"),
    datetime.date(2024, 1, 2),
    None,
    2**80,
    b"x",
]


@given(values=st.lists(st.sampled_from(VALUES), min_size=1), timed=st.booleans())
def test_a_batch_keeps_values_types_times_and_keys(values: list[Any], timed: bool) -> None:
    batch = Batch(values, list(range(len(values))) if timed else None, [(n, "k") for n in range(len(values))])

    arrived = travelled(wire(), batch)

    assert (arrived.values, arrived.timestamps, arrived.keys) == (values, batch.timestamps, batch.keys)
    assert list(map(type, arrived.values)) == list(map(type, values))


def test_a_batch_without_keys_and_times_stays_without() -> None:
    edge = EdgeCodec(JobEdge("a", OperatorUid("a"), "b", Rebalance(), None, 2, 3, 128))

    assert travelled(edge, Batch([1, 2])) == Batch([1, 2])


def test_declared_types_travel_by_their_codec() -> None:
    assert travelled(wire(Types.LONG(), Types.STRING()), Batch([1, 2], None, ["a", "b"])).keys == ["a", "b"]


def test_a_value_that_is_not_of_its_declared_type_is_refused() -> None:
    with pytest.raises(RecordError):
        wire(Types.LONG()).encode(CHANNEL, Batch(["text"]))
