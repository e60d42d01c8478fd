"""Every column of a batch passes whatever routes, joins, cuts, encodes, stores or sorts it, also one that is added later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.unit.runtime.task.test_in_flight import backlog, edge, recorded, recorded_again, rest
from tidegate import elements
from tidegate.arrow_rows import ArrowRows
from tidegate.clock import ManualClock
from tidegate.elements import Batch, BatchCursor, EndOfInput, RecordOrigin, RowKind, batch_of, concat
from tidegate.errors import StateFormatError
from tidegate.ids import OperatorUid
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Partition,
    Rebalance,
    Rescale,
    Shuffle,
)
from tidegate.runtime.operators.tracing import Tracer
from tidegate.runtime.stream.key_selectors import FieldSelector
from tidegate.runtime.task.credit import Credit
from tidegate.runtime.task.exchange import Buffer, ChannelId
from tidegate.runtime.task.feedback_queue import FeedbackQueue
from tidegate.runtime.task.frames import EdgeCodec, Frame
from tidegate.runtime.task.results import ResultGate, Results
from tidegate.runtime.task.routing import router
from tidegate.runtime.task.sorted_input import SortedInput

Record = tuple[Any, ...]


@dataclass(slots=True)
class Marked(Batch):
    """Batches with one column more."""

    marks: list[str] | None = None


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decoded is of the class with one column more."""
    monkeypatch.setattr(elements, "Batch", Marked)


NAMES = ("values", "timestamps", "keys", "kinds", "origins", "marks")
KINDS = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
ORIGINS = [RecordOrigin("source", "part", 3), None]
PARTITIONS: list[Partition] = [
    Forward(),
    Global(),
    Broadcast(),
    Rebalance(),
    Rescale(),
    Shuffle(),
    Custom(lambda key, count: key % count, lambda value: value[0]),
    Hash(lambda value: value[0] % 5),
    Hash(FieldSelector(0)),
]


def records(batch: Batch) -> list[Record]:
    """The records with all they have; None where the column is."""
    columns = [getattr(batch, name) for name in NAMES]
    assert all(column is None or len(column) == len(batch) for column in columns)
    return list(zip(*(column or [None] * len(batch) for column in columns), strict=True))


def marked(count: int, *names: str, arrow: bool = False) -> Marked:
    """Numbered records with these columns."""
    values: Sequence[Any] = [(number,) for number in range(count)]
    columns: dict[str, Any] = {
        "timestamps": [10 * number for number in range(count)],
        "keys": [number % 5 for number in range(count)],
        "kinds": [KINDS[number % 4] for number in range(count)],
        "origins": [ORIGINS[number % 2] for number in range(count)],
        "marks": [f"m{number}" for number in range(count)],
    }
    if arrow:
        values = ArrowRows(pa.record_batch({"number": range(count)}), "tuple")
    return Marked(values, **{name: columns[name] for name in names})


ALL = marked(7, *NAMES[1:])
ARROW = marked(7, *NAMES[1:], arrow=True)


def pieces(batch: Batch, sizes: list[int]) -> list[Batch]:
    cursor = BatchCursor(batch)
    taken = [cursor.take(size) for size in sizes if cursor]
    assert len(cursor) == len(batch) - sum(map(len, taken))
    return [*taken, cursor.rest()] if cursor else taken


def one(batches: list[Batch]) -> Batch:
    """As a single batch, which the same columns make possible."""
    (batch,) = concat(batches)
    return batch


class Sent(list[Any]):
    credit = Credit(1_000)

    def send(self, element: Any) -> None:
        self.append(element)


def framed(batch: Batch, value_type: Any = None) -> Batch:
    codec = EdgeCodec(JobEdge("a", OperatorUid("a"), "b", Hash(abs), value_type, 1, 1, 128))
    found = codec.element(msgspec.msgpack.decode(codec.encode(ChannelId("a->b", 0, 0), batch), type=Frame))
    assert isinstance(found, Batch)
    return found


def buffered(batch: Batch, sizes: list[int]) -> Batch:
    sent = Sent()
    buffer = Buffer(sent, 100, ManualClock())
    for piece in pieces(batch, sizes):
        buffer.send(piece)
    buffer.flush()
    return one(sent)


SIZES = st.lists(st.integers(1, 4), max_size=4)


@given(
    count=st.integers(1, 12),
    names=st.sets(st.sampled_from(NAMES[1:])),
    arrow=st.booleans(),
    data=st.data(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("added")
def test_whatever_is_done_to_batches_is_done_to_their_records(
    count: int, names: set[str], arrow: bool, data: st.DataObject
) -> None:
    batch: Batch = marked(count, *names, arrow=arrow)
    model = records(batch)
    for _ in range(data.draw(st.integers(1, 6))):
        operation = data.draw(
            st.sampled_from(["part", "select", "values", "keys", "cut", "buffer", "frame", "route"])
        )
        places = data.draw(st.lists(st.integers(0, len(model) - 1), min_size=1, max_size=8))
        match operation:
            case "part":
                picked = slice(places[0], None, len(places))
                batch, model = batch.part(picked), model[picked]
            case "select":
                batch, model = batch.select(places), [model[place] for place in places]
            case "values":
                batch, arrow = batch.with_values([(*value, "w") for value in batch.values]), False
                model = [((*value, "w"), *others) for value, *others in model]
            case "keys":
                batch = batch.with_keys([len(value) for value in batch.values])
                model = [(value, time, len(value), *others) for value, time, _, *others in model]
            case "cut":
                batch = one(pieces(batch, data.draw(SIZES)))
            case "buffer":
                batch = buffered(batch, data.draw(SIZES))
            case "frame":
                batch = framed(batch)
            case "route":
                partition = data.draw(st.sampled_from(PARTITIONS))
                batch, model = routed(batch, model, partition)
                arrow = arrow and isinstance(getattr(partition, "selector", FieldSelector(0)), FieldSelector)
        assert records(batch) == model
        assert type(batch) is Marked
        assert isinstance(batch.values, ArrowRows) == arrow


def routed(batch: Batch, model: list[Record], partition: Partition) -> tuple[Batch, list[Record]]:
    """What one of three receivers gets, after a look at what all get."""
    shares = dict(router(JobEdge("a", OperatorUid("a"), "b", partition, None, 3, 3, 128), 1)(batch))
    if isinstance(partition, Hash):
        key_of = partition.selector
        model = [(value, time, key_of(value), *others) for value, time, _, *others in model]
    got = {target: records(share) for target, share in shares.items()}
    copies = 3 if isinstance(partition, Broadcast) else 1
    assert Counter(map(repr, (each for share in got.values() for each in share))) == Counter(
        map(repr, model * copies)
    )
    target = max(got)
    return shares[target], got[target]


def stored(tmp_path: Path, every: Batch) -> Iterator[Batch]:
    inbound = edge(Hash(lambda value: value[0] % 5), 1)
    found = backlog(inbound, 0, 1, (recorded(inbound, 0, {0: [every]}),))
    begun = [found.take(2), found.take(2)]
    again = recorded_again(inbound, 0, found, time=0)
    for each in (*begun, *rest(backlog(inbound, 0, 1, again))):
        if each is not None and isinstance(each.element, Batch):
            yield each.element


def spilled(tmp_path: Path, every: Batch) -> Iterator[Batch]:
    back = JobEdge("step", OperatorUid("step"), "head", Forward(), None, 1, 1, 128, feedback=True)
    waiting = FeedbackQueue([back], tmp_path, room=3)
    for piece in pieces(every, [3, 2]):
        waiting.append(ChannelId(back.name, 0, 0), piece)
    assert waiting.spilled == 2
    for _ in range(len(waiting)):
        yield waiting.popleft()
    waiting.close()


def in_files(tmp_path: Path, every: Batch) -> Iterator[Batch]:
    results, own = Results((tmp_path,)), edge(Rebalance(), 1)
    gate = ResultGate(0, {0: Sent()}, results.writer(own, 0), ManualClock(), lambda: True)
    for piece in pieces(every, [3]):
        gate.emit(piece)
    gate.broadcast(EndOfInput())
    yield from results.batches(own, 0, 0)


def sorted_by_key(tmp_path: Path, every: Batch, memory_bytes: int = 1) -> Iterator[Batch]:
    taken = SortedInput([None], tmp_path, memory_bytes)
    for piece in pieces(every, [3]):
        taken.add(0, piece)
    for key, batches in taken.by_key():
        for batch, number in batches:
            assert (batch.keys, number) == ([key] * len(batch), 0)
            yield batch
    taken.close()


def sorted_in_memory(tmp_path: Path, every: Batch) -> Iterator[Batch]:
    return sorted_by_key(tmp_path, every, 1_000_000)


def traced(tmp_path: Path, every: Batch) -> Iterator[Batch]:
    tracer, sent = Tracer(OperatorUid("source")), list[Batch]()
    hold = tracer.holding(sent.append, True)
    for alone in tracer.one_by_one(every):
        hold(alone)
    tracer.let_go()
    yield from sent


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("every", [ALL, ARROW], ids=["rows", "arrow"])
@pytest.mark.parametrize(
    "way", [stored, spilled, in_files, sorted_by_key, sorted_in_memory, traced], ids=lambda way: way.__name__
)
def test_every_column_comes_back_from_where_batches_are_kept(
    way: Callable[[Path, Batch], Iterator[Batch]], every: Batch, tmp_path: Path
) -> None:
    found = list(way(tmp_path, every))

    persisted_or_sorted = way in (stored, sorted_by_key, sorted_in_memory)
    expected = list if persisted_or_sorted else type(every.values)
    assert {type(batch.values) for batch in found} == {expected}
    assert sorted(map(repr, (each for batch in found for each in records(batch)))) == sorted(
        map(repr, records(ALL))
    )
    assert all(type(kind) is RowKind for batch in found for kind in batch.kinds or ())


def test_records_that_are_sorted_keep_the_columns_they_have(tmp_path: Path) -> None:
    taken = SortedInput([None, None], tmp_path, 1)
    taken.add(0, Batch(["a"], keys=["k"]))
    taken.add(1, Batch(["b"], [5], ["k"], [RowKind.DELETE]))
    taken.add(0, Batch(["c", "d"], [3, 6], ["k", "k"]))

    assert [(key, list(batches)) for key, batches in taken.by_key()] == [
        (
            "k",
            [
                (Batch(["a"], keys=["k"]), 0),
                (Batch(["c"], [3], ["k"]), 0),
                (Batch(["b"], [5], ["k"], [RowKind.DELETE]), 1),
                (Batch(["d"], [6], ["k"]), 0),
            ],
        )
    ]
    taken.close()


def test_batches_with_other_columns_are_not_joined() -> None:
    changed = Batch([2], kinds=[RowKind.DELETE])
    batches = [Batch([0]), Batch([1]), changed, changed, Batch([3], [7])]

    assert list(concat(batches)) == [
        Batch([0, 1]),
        Batch([2, 2], kinds=[RowKind.DELETE] * 2),
        Batch([3], [7]),
    ]
    assert list(concat([])) == []


def test_a_cursor_copies_each_record_once() -> None:
    class Counted(list[Any]):
        copied = 0

        def __getitem__(self, place: Any) -> Any:
            Counted.copied += len(range(*place.indices(len(self))))
            return super().__getitem__(place)

    cursor = BatchCursor(Batch(Counted(range(1_000))))
    taken = [cursor.take(3) for _ in range(334)]

    assert (Counted.copied, len(cursor)) == (1_000, 0)
    assert [value for batch in taken for value in batch.values] == list(range(1_000))
    whole = Batch([1, 2])
    assert BatchCursor(whole).take(2) is whole


def test_a_column_of_a_newer_version_is_refused() -> None:
    with pytest.raises(
        StateFormatError,
        match=r"records have unknown columns; got \['marks'\]; expected some of \['timestamps'",
    ):
        batch_of([1], None, {"marks": ["m"]})


def test_kinds_take_one_byte_each_between_processes() -> None:
    batch = Batch([None] * 1_000)
    changes = Batch([None] * 1_000, kinds=[KINDS[number % 4] for number in range(1_000)])
    codec = EdgeCodec(JobEdge("a", OperatorUid("a"), "b", Rebalance(), None, 1, 1, 128))
    sizes = [len(codec.encode(ChannelId("a->b", 0, 0), each)) for each in (batch, changes)]

    assert 1_000 <= sizes[1] - sizes[0] <= 1_010
    assert framed(changes) == changes
