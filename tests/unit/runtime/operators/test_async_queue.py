"""In which order requests and watermarks leave, against a plain model of the rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.elements import Idle, Watermark
from tidegate.runtime.operators.async_queue import (
    Entry,
    OrderedQueue,
    Request,
    RequestQueue,
    UnorderedQueue,
)


def shown(entries: list[Entry]) -> list[Any]:
    return [
        entry.timestamp
        if isinstance(entry, Watermark)
        else entry.idle
        if isinstance(entry, Idle)
        else entry.value
        for entry in entries
    ]


def test_in_order_an_early_answer_waits_for_the_head() -> None:
    queue = OrderedQueue()
    requests = [Request(name) for name in ("P1", "P2", "P3", "P4")]
    for request in requests:
        queue.add(request)

    queue.complete(requests[3], [])
    held = queue.take()
    queue.complete(requests[0], [])

    assert (held, shown(queue.take()), shown(queue.entries())) == ([], ["P1"], ["P2", "P3", "P4"])


def test_without_watermarks_the_first_answer_leaves_first() -> None:
    queue = UnorderedQueue()
    requests = [Request(name) for name in ("a", "b", "c")]
    for request in requests:
        queue.add(request)

    for request in reversed(requests):
        queue.complete(request, [])

    assert shown(queue.take()) == ["c", "b", "a"]


def test_a_watermark_leaves_after_the_last_record_before_it_and_before_every_later_one() -> None:
    queue = UnorderedQueue()
    before, after = Request("before"), Request("after")
    for entry in (before, Watermark(10), after, Watermark(20)):
        queue.add(entry)

    queue.complete(after, [])
    held = queue.take()
    queue.complete(before, [])

    assert (held, shown(queue.take())) == ([], ["before", 10, "after", 20])


@pytest.mark.parametrize("kind", [OrderedQueue, UnorderedQueue])
def test_what_has_left_is_no_state_and_what_is_answered_but_held_is(kind: type[RequestQueue]) -> None:
    queue = kind()
    first, second, third = Request(1), Request(2), Request(3)
    for entry in (first, Watermark(5), second, third):
        queue.add(entry)

    queue.complete(third, [])
    both = shown(queue.entries())
    queue.complete(first, [])
    left = shown(queue.take())

    assert both == [1, 5, 2, 3]
    assert set(left) | set(shown(queue.entries())) == {1, 5, 2, 3}
    assert not set(left) & set(shown(queue.entries()))


@pytest.mark.parametrize("kind", [OrderedQueue, UnorderedQueue])
@given(script=st.lists(st.sampled_from(["record", "watermark", "answer"]), max_size=40), data=st.data())
def test_everything_leaves_once_and_nothing_passes_a_watermark(
    kind: type[RequestQueue], script: list[str], data: st.DataObject
) -> None:
    queue = kind()
    added: list[Entry] = []
    open_requests: list[Request] = []
    left: list[Entry] = []
    for step in script:
        if step == "answer" and open_requests:
            place = data.draw(st.integers(0, len(open_requests) - 1))
            queue.complete(open_requests.pop(place), [])
            left += queue.take()
        elif step != "answer":
            entry = Request(len(added)) if step == "record" else Watermark(len(added))
            added.append(entry)
            queue.add(entry)
            open_requests += [entry] if isinstance(entry, Request) else []
        assert len(queue) == sum(isinstance(entry, Request) for entry in queue.entries())
    for request in open_requests:
        queue.complete(request, [])
    left += queue.take()

    assert queue.entries() == []
    assert sorted(shown(left)) == list(range(len(added)))
    if kind is OrderedQueue:
        assert left == added
    for place, left_one in enumerate(left):
        if isinstance(left_one, Watermark):
            assert sorted(shown(left[:place])) == list(range(left_one.timestamp))
