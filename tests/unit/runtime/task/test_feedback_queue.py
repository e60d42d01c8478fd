"""What comes back to an iteration and waits: its order, its place in memory, the files beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tidegate.elements import Batch
from tidegate.errors import RecordError
from tidegate.ids import OperatorUid
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import Forward
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.feedback_queue import FeedbackQueue
from tidegate.types import Types

NUMBERS = JobEdge("map", OperatorUid("map"), "head", Forward(), Types.LONG(), 1, 1, 128, feedback=True)
TEXTS = JobEdge("tell", OperatorUid("tell"), "head", Forward(), Types.STRING(), 1, 1, 128, feedback=True)
NUMBER, TEXT = (ChannelId(edge.name, 0, 0) for edge in (NUMBERS, TEXTS))


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[FeedbackQueue]:
    waiting = FeedbackQueue([NUMBERS, TEXTS], tmp_path, room=4)
    yield waiting
    waiting.close()


def open_files(directory: Path) -> int:
    links = list(Path("/proc/self/fd").iterdir())
    return sum(str(link.readlink()).startswith(str(directory)) for link in links if link.is_symlink())


@given(steps=st.lists(st.one_of(st.none(), st.lists(st.integers(0, 9), min_size=1, max_size=6)), max_size=60))
def test_batches_come_in_the_order_in_which_they_came_back(
    steps: list[list[int] | None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    waiting = FeedbackQueue([NUMBERS], tmp_path_factory.getbasetemp(), room=8)
    model: deque[list[int]] = deque()
    for values in steps:
        if values is not None:
            waiting.append(NUMBER, Batch(values, [len(values)] * len(values)))
            model.append(values)
        elif model:
            batch, expected = waiting.popleft(), model.popleft()
            assert (batch.values, batch.timestamps) == (expected, [len(expected)] * len(expected))
        assert len(waiting) == len(model)
    waiting.close()


def test_memory_holds_what_it_has_room_for_and_the_disk_the_rest(waiting: FeedbackQueue) -> None:
    for number in range(100):
        waiting.append(NUMBER, Batch([number, number]))

    assert len(waiting) == 100
    assert waiting.spilled == 98


def test_a_batch_that_grew_comes_back_in_parts(waiting: FeedbackQueue) -> None:
    waiting.append(NUMBER, Batch(list(range(2_500)), list(range(2_500))))

    parts = [waiting.popleft() for _ in range(len(waiting))]

    assert [len(part) for part in parts] == [1_024, 1_024, 452]
    assert [value for part in parts for value in part.values] == list(range(2_500))


def test_batches_of_several_edges_keep_their_types(waiting: FeedbackQueue) -> None:
    waiting.append(NUMBER, Batch([1, 2, 3, 4]))
    waiting.append(TEXT, Batch(["a"]))
    waiting.append(NUMBER, Batch([5]))

    assert [waiting.popleft().values for _ in range(3)] == [[1, 2, 3, 4], ["a"], [5]]


def test_a_file_is_gone_once_it_is_read(waiting: FeedbackQueue, tmp_path: Path) -> None:
    for _ in range(3):
        for number in range(9):
            waiting.append(NUMBER, Batch([number]))
        assert open_files(tmp_path) == 1
        assert [waiting.popleft().values for _ in range(9)] == [[number] for number in range(9)]
        assert open_files(tmp_path) == 0


def test_what_comes_back_while_a_file_is_read_is_in_the_next(waiting: FeedbackQueue, tmp_path: Path) -> None:
    for number in range(1_000):
        waiting.append(NUMBER, Batch([number]))
        waiting.append(NUMBER, Batch([number]))
        assert waiting.popleft().values == [number // 2]
        assert open_files(tmp_path) <= 2


def test_closing_gives_back_what_nobody_read(waiting: FeedbackQueue, tmp_path: Path) -> None:
    for number in range(9):
        waiting.append(NUMBER, Batch([number]))
    for _ in range(6):
        waiting.popleft()
    waiting.append(NUMBER, Batch([9]))

    waiting.close()

    assert open_files(tmp_path) == 0


def test_a_record_of_another_type_is_refused_where_it_goes_to_disk(waiting: FeedbackQueue) -> None:
    waiting.append(NUMBER, Batch([1, 2, 3, 4]))

    with pytest.raises(RecordError, match="got str 'a'; expected long"):
        waiting.append(NUMBER, Batch(["a"]))
