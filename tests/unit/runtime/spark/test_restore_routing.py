"""What subtasks start from gets to each of them and to nobody else, however many levels it passes."""

from __future__ import annotations

import pytest

from tidegate.ids import OperatorUid, Subtask
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.spark.messages import ReadOrder
from tidegate.runtime.spark.outbox import Outbox
from tidegate.runtime.spark.restore_routing import start_of, with_starts
from tidegate.runtime.spark.shape import Shape


def level(name: str, width: int) -> tuple[Subtask, ...]:
    return tuple(Subtask(name, index) for index in range(width))


@pytest.mark.parametrize("widths", [(1, 4), (2, 3, 5), (5, 2, 1, 3)], ids=str)
def test_every_subtask_hears_once_what_it_starts_from(widths: tuple[int, ...]) -> None:
    levels = tuple(level(f"level-{number}", width) for number, width in enumerate(widths))
    restored = {
        subtask: {OperatorUid(str(subtask)): RestoredOperator(writers=(str(subtask).encode(),))}
        for subtasks in levels
        for subtask in subtasks
    }
    reads = [ReadOrder(subtask, (), True, 10) for subtask in levels[0]]

    boxes = [dict(read.starts) for read in with_starts(Shape(levels), restored, reads)]
    found = {}
    for number, subtasks in enumerate(levels):
        for place, subtask in enumerate(subtasks):
            found[subtask] = start_of(boxes[place].pop(subtask))
        if number + 1 < len(levels):
            boxes = passed_on(boxes, levels[number + 1])

    assert found == restored
    assert not any(boxes)


def passed_on(
    boxes: list[dict[Subtask, bytes]], following: tuple[Subtask, ...]
) -> list[dict[Subtask, bytes]]:
    arrived: list[dict[Subtask, bytes]] = [{} for _ in following]
    for place, box in enumerate(boxes):
        outbox = Outbox()
        for subtask, data in box.items():
            outbox.pass_on(subtask, (data,))
        for target, share in enumerate(outbox.dealt(following, place)):
            for subtask, (data,) in share.items():
                assert subtask not in arrived[target]
                arrived[target][subtask] = data
    return arrived


def test_who_is_new_starts_from_nothing() -> None:
    (read,) = with_starts(Shape((level("in", 1),)), {}, [ReadOrder(Subtask("in", 0), (), True, 10)])
    assert read.starts == {}
    assert start_of(None) == {}
