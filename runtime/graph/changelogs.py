"""Changelog modes of a program: which kinds of changes each step emits, as far as known before it runs.

A mode of None is unknown: a function may emit rows of any kind. Its output is then checked at run time by the steps that
accept only some kinds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from tidegate.changelog import ChangelogMode, RowKinds
from tidegate.connectors.spi import SupportsChangelog, SupportsRowKinds
from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.operators.rows import may_be_row

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamEdge, StreamNode

__all__ = ["Changelog", "changelogs", "changing"]

Changelog: TypeAlias = ChangelogMode | None

_INSERT_ONLY = ChangelogMode.insert_only()


def changelogs(
    nodes: Mapping[OperatorUid, StreamNode], edges: Collection[StreamEdge]
) -> dict[OperatorUid, Changelog]:
    """The changelog mode of each step; `nodes` are in topological order.

    Raises:
        ConfigError: a step certainly gets changes that it does not accept.
    """
    modes: dict[OperatorUid, Changelog] = {}
    origins: dict[OperatorUid, StreamNode] = {}
    for uid, node in nodes.items():
        inputs = [edge for edge in edges if edge.target == uid and not edge.feedback]
        modes[uid] = _emitted(node, [(nodes[edge.source], modes[edge.source]) for edge in inputs])
        changes = [edge for edge in inputs if changing(modes[edge.source])]
        for edge in changes:
            _check(node, edge.side, nodes[edge.source], origins[edge.source], modes[edge.source])
        kept = changes and node.kind.gives == "input" and not isinstance(node.payload, SupportsChangelog)
        origins[uid] = origins[changes[0].source] if kept else node
    return modes


def changing(mode: Changelog) -> TypeGuard[ChangelogMode]:
    """Whether a step certainly emits changes."""
    return mode is not None and mode != _INSERT_ONLY


def _emitted(node: StreamNode, before: list[tuple[StreamNode, Changelog]]) -> Changelog:
    inputs = [mode for _, mode in before]
    if isinstance(node.payload, SupportsChangelog):
        return node.payload.changelog_mode
    if node.kind.role is Role.ITERATION:
        return _united([*inputs, None])
    kinds = [node.kind] if node.kind.role is not Role.SIDE_OUTPUT else [each.kind for each, _ in before]
    if all(kind.gives == "input" for kind in kinds):
        return _united(inputs)
    sure = node.kind.gives == "insert-only" or node.kind.role is Role.SOURCE
    return _INSERT_ONLY if sure or not may_be_row(node.output_type) else None


def _united(modes: Collection[Changelog]) -> Changelog:
    """The mode of several inputs together: changes that one of them certainly emits are certain."""
    known = reduce(or_, (mode for mode in modes if mode is not None), _INSERT_ONLY)
    return None if None in modes and not changing(known) else known


def _taken(node: StreamNode, side: int) -> RowKinds:
    if node.kind.role is Role.SINK and isinstance(node.payload, SupportsRowKinds):
        return node.payload.takes
    return node.kind.inputs[side].takes


def _check(node: StreamNode, side: int, before: StreamNode, origin: StreamNode, mode: Changelog) -> None:
    takes = _taken(node, side)
    if takes == "any" or (takes == "rows" and may_be_row(before.output_type)):
        return
    what, remedy = (
        ("insertions only", "map changes to insertions in front of it, or use a step that handles changes")
        if takes == "insert-only"
        else (f"changes of rows only, not of {before.output_type}", "map changes to rows in front of it")
    )
    raise ConfigError(
        f"operator {node.name!r} (uid {node.uid!r}) accepts {what}; got changes [{mode.short if mode is not None else ''}] from "
        f"{origin.name!r} (uid {origin.uid!r}); {remedy}"
    )
