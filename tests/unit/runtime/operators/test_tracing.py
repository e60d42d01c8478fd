"""Records behind a traced chain know where they come from."""

from __future__ import annotations

from tidegate.elements import Batch, Origin, RecordOrigin
from tidegate.ids import OperatorUid, SplitId
from tidegate.runtime.operators.tracing import Tracer

SOURCE = OperatorUid("orders")


def origin(position: int) -> RecordOrigin:
    return RecordOrigin("orders", "part-0", position)


def test_records_of_a_source_have_their_split_and_position() -> None:
    tracer = Tracer(SOURCE)
    batch = Batch(["a", "b"], [1, 2], origin=Origin(SplitId("part-0"), range(7, 9)))

    seen = [(alone.values, alone.timestamps, tracer.origin) for alone in tracer.one_by_one(batch)]

    assert seen == [(["a"], [1], origin(7)), (["b"], [2], origin(8))]
    assert tracer.origin is None


def test_what_comes_out_has_the_origin_of_what_went_in_and_leaves_together() -> None:
    tracer, sent, bare = Tracer(SOURCE), list[Batch](), list[Batch]()
    hold, hold_bare = tracer.holding(sent.append, True), tracer.holding(bare.append, False)
    incoming = Batch(["a", "b", "c"], keys=[1, 2, 3], origins=[origin(4), None, origin(6)])

    for alone in tracer.one_by_one(incoming):
        assert alone.keys is not None
        for _ in range(alone.keys[0] - 1):
            hold(Batch(alone.rows() * 2))
            hold_bare(Batch(alone.values))
    assert sent == []
    tracer.let_go()
    tracer.let_go()

    (batch,) = sent
    assert batch.values == ["b", "b", "c", "c", "c", "c"]
    assert batch.origins == [None, None, *[origin(6)] * 4]
    assert batch.timestamps is None
    assert [(each.values, each.origins) for each in bare] == [(["b", "c", "c"], None)]


def test_records_of_unknown_origin_have_none() -> None:
    tracer = Tracer(SOURCE)

    assert [tracer.origin for _ in tracer.one_by_one(Batch([1, 2]))] == [None, None]
