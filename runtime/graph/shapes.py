"""What an operator uid stands for: the shape of its step, kept with each checkpoint and compared at each start.

A uid the program gives is its own evidence. One made by counting, such as `process-2`, says only that the step is the second
of its name; its shape tells whether that is still the same step.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tidegate.ids import OperatorUid
from tidegate.runtime.graph.transformations import Hash
from tidegate.runtime.operators.operator import Role

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamEdge, StreamNode

__all__ = ["Shape", "shapes"]


class Shape(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a step is and where it stands, without its uid."""

    automatic: bool
    """Whether its uid was made by counting steps of its name."""
    kind: str
    function: str = ""
    """The class of the user's function, source or sink; the name of a plain function."""
    key_type: str = ""
    """The declared type of the keys by which its input is partitioned; empty if none is declared or it has no keys."""
    place: tuple[str, ...] = ()
    """The nearest sources, keyed steps and side outputs: those in front of it with `<`, those behind it with `>`."""

    @property
    def title(self) -> str:
        """The kind and the function, as messages show them."""
        return f"{self.kind} {self.function}".rstrip()


def shapes(
    nodes: Iterable[StreamNode], edges: Collection[StreamEdge], automatic: Collection[OperatorUid]
) -> dict[OperatorUid, Shape]:
    """The shape of every step; the uids in `automatic` were made by counting."""
    known = {node.uid: node for node in nodes}
    forward = [edge for edge in edges if not edge.feedback]
    before: dict[OperatorUid, list[OperatorUid]] = {uid: [] for uid in known}
    behind: dict[OperatorUid, list[OperatorUid]] = {uid: [] for uid in known}
    keys: dict[OperatorUid, str] = {}
    keyed = {edge.target for edge in forward if isinstance(edge.partition, Hash)}
    for edge in forward:
        before[edge.target].append(edge.source)
        behind[edge.source].append(edge.target)
        if isinstance(edge.partition, Hash) and edge.partition.key_type is not None:
            keys[edge.target] = str(edge.partition.key_type)
    landmarks = {uid: _titled(node) for uid, node in known.items() if node.kind.landmark or uid in keyed}
    # Steps come in topological order, so what is nearest of each neighbour is known when it is asked for.
    front: dict[OperatorUid, set[str]] = {}
    for uid in known:
        front[uid] = _nearest(before[uid], landmarks, front)
    back: dict[OperatorUid, set[str]] = {}
    for uid in reversed(known):
        back[uid] = _nearest(behind[uid], landmarks, back)
    return {
        uid: Shape(
            automatic=uid in automatic,
            kind=node.kind.name,
            function=_function(node.payload),
            key_type=keys.get(uid, ""),
            place=(
                *(f"< {each}" for each in sorted(front[uid])),
                *(f"> {each}" for each in sorted(back[uid])),
            ),
        )
        for uid, node in known.items()
    }


def _nearest(
    neighbours: Iterable[OperatorUid], landmarks: dict[OperatorUid, str], known: dict[OperatorUid, set[str]]
) -> set[str]:
    found: set[str] = set()
    for uid in neighbours:
        found |= {landmarks[uid]} if uid in landmarks else known[uid]
    return found


def _titled(node: StreamNode) -> str:
    return (
        node.name if node.kind.role is Role.SIDE_OUTPUT else f"{node.kind} {_function(node.payload)}".rstrip()
    )


def _function(payload: Any) -> str:
    """The name of what the user wrote."""
    while isinstance(payload, functools.partial):
        payload = payload.func
    inner = getattr(payload, "functions", ())
    if isinstance(inner, tuple) and inner:
        return ", ".join(map(_function, inner))
    name = getattr(payload, "__name__", None)
    return name if isinstance(name, str) else type(payload).__name__
