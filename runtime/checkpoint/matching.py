"""Matches each operator of a checkpoint to a step of the program, or refuses if it is ambiguous. Pure.

A uid that the program gives decides alone. A uid made by counting decides only where the step it names now is still the step
it named then; `--map old=new` decides the rest. See docs/decisions/automatic-uids.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest

import msgspec

from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState
from tidegate.runtime.checkpoint.restore import holds_state
from tidegate.runtime.graph.shapes import Shape
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.operators.operator import Role

__all__ = ["Matching", "parse_mapping"]


def parse_mapping(given: str) -> dict[OperatorUid, OperatorUid]:
    """Pairs `old=new`, separated by commas; an empty `new` leaves the state behind.

    Raises:
        ConfigError: an entry is not a pair of uids, or a uid occurs twice on one side.
    """
    pairs = [part.strip().partition("=") for part in given.split(",") if part.strip()]
    for old, separator, new in pairs:
        if not separator or not old:
            raise ConfigError(
                f"--map cannot be parsed; got {old + separator + new!r}; expected old=new, two uids, or old= to drop the state"
            )
    olds, news = [old for old, _, _ in pairs], [new for _, _, new in pairs if new]
    for side in (olds, news):
        if twice := next((uid for uid in side if side.count(uid) > 1), None):
            raise ConfigError(f"--map names {twice!r} twice on one side; expected each uid once")
    return {OperatorUid(old): OperatorUid(new) for old, _, new in pairs}


class Matching:
    """Matches a checkpoint with the steps of a program; `mapping` holds the decisions given with `--map`.

    Raises:
        ConfigError: the mapping names an operator or a step that does not exist, or renames a sink.
    """

    def __init__(
        self,
        manifest: Manifest,
        nodes: Mapping[OperatorUid, StreamNode],
        mapping: Mapping[OperatorUid, OperatorUid],
        *,
        unclaimed: bool = False,
    ) -> None:
        self._manifest = manifest
        self._nodes = nodes
        self._mapping = mapping
        self._unclaimed = unclaimed
        working = {work.uid for unsettled in manifest.unsettled for work in unsettled.committables}
        self._held = {
            each.uid: each for each in manifest.operators if not each.stateless or each.uid in working
        }
        self._check_mapping()
        self._open = {uid: each for uid, each in self._held.items() if uid not in mapping}
        self.undecided: dict[OperatorUid, str] = dict(self._mismatches())
        """Operators of the checkpoint whose step cannot be determined, and why."""
        self.left_behind = tuple(each for uid, each in self._held.items() if mapping.get(uid) == "")
        """Operators of the checkpoint whose state the mapping drops."""

    def matched(self) -> Manifest:
        """The checkpoint with the uids of the program.

        Raises:
            ConfigError: the step of an operator is ambiguous; the message lists the options.
        """
        if self.undecided:
            raise ConfigError(self.refusal())
        if not self._mapping:
            return self._manifest
        taken = {new for new in self._mapping.values() if new}
        operators = tuple(
            msgspec.structs.replace(each, uid=self._mapping.get(each.uid, each.uid))
            for each in self._manifest.operators
            if self._mapping.get(each.uid, each.uid) and (each.uid in self._mapping or each.uid not in taken)
        )
        return msgspec.structs.replace(self._manifest, operators=operators)

    def refusal(self) -> str:
        """What is undecided, both graphs, and how to decide."""
        found = self._manifest
        lines = [
            f"checkpoint {found.checkpoint} of pipeline {found.pipeline!r} was taken by a program with other steps; its state "
            "could be restored to the wrong step, or not be found:",
            *(f"  {uid}: {why}" for uid, why in self.undecided.items()),
            *self._side_by_side(),
            "give one option for each, most likely first:",
        ]
        for uid in self.undecided:
            lines += [f"  --map {uid}={each}" for each in self._candidates(self._held[uid])]
            lines.append(f"  --map {uid}=   (drops its state)")
        first = next(iter(self.undecided))
        lines.append(
            f'or give the step of that state its uid: .uid("{first}"); or start without state: --fresh'
        )
        return "\n".join(lines)

    def _check_mapping(self) -> None:
        for old, new in self._mapping.items():
            if old not in self._held:
                raise ConfigError(
                    f"--map {old}={new}: checkpoint {self._manifest.checkpoint} holds no state of {old!r}; "
                    f"expected one of {', '.join(sorted(self._held)) or 'none'}"
                )
            if new and new not in self._nodes:
                raise ConfigError(
                    f"--map {old}={new}: the program has no operator {new!r}; expected one of {', '.join(sorted(self._nodes))}"
                )
            if new in (old, ""):
                continue
            if self._nodes[new].kind.role is Role.SINK:
                raise ConfigError(
                    f"--map {old}={new} renames a sink, whose uid is part of names in the system it writes to; "
                    f'give the sink its old uid with .uid("{old}")'
                )
            if new in self._held and new not in self._mapping:
                raise ConfigError(
                    f"--map {old}={new}: the checkpoint also holds state of {new!r}; name the operator that gets it with --map, "
                    f"or drop it with --map {new}="
                )

    def _mismatches(self) -> Iterator[tuple[OperatorUid, str]]:
        for uid, held in self._open.items():
            node = self._nodes.get(uid)
            if why := self._moved(held) if node is None else self._differs(held, node):
                yield uid, why

    def _moved(self, held: OperatorState) -> str:
        """An operator that the program does not have; a given uid is looked at where state is dealt out."""
        asked = _counted(held) and holds_state(held) and not self._unclaimed
        return "the program has no step of this uid" if asked else ""

    def _differs(self, held: OperatorState, node: StreamNode) -> str:
        then, now = held.shape, node.shape
        if now is None:
            return ""
        if then is not None and then.key_type != now.key_type and then.key_type and now.key_type:
            return (
                f"its keys were declared as {then.key_type} and are {now.key_type} now, so its state would not be found; "
                "declare the old type, or choose an option below"
            )
        if not now.automatic:
            return ""
        if not _counted(held):
            return "the program set this uid on a step; now it is an automatic uid"
        rivals = [each for each in self._open.values() if _counted(each) and each.name == held.name]
        steps = [each for each in self._nodes.values() if self._is_free(each, held.name)]
        before = max(self._known(held.name), *(_number(each.uid) for each in rivals))
        if then is None:
            if before == len(steps):
                return ""
            return f"{before} steps without a uid were named {held.name!r}, now {len(steps)} are"
        contested = max(before, len(steps)) > 1
        return _change(then, now, contested) or (
            self._twins(then, rivals, steps) if contested and before != len(steps) else ""
        )

    def _is_free(self, node: StreamNode, name: str) -> bool:
        counted = node.shape is not None and node.shape.automatic
        return counted and node.name == name and node.uid not in self._mapping.values()

    def _known(self, name: str) -> int:
        """How many steps of a name the checkpoint knows whose uids were counted and are open."""
        taken = {uid for uid, node in self._nodes.items() if node.shape is None or not node.shape.automatic}
        return sum(
            _counted(each) and each.name == name and each.uid not in taken and each.uid not in self._mapping
            for each in self._manifest.operators
        )

    def _twins(self, shape: Shape, rivals: list[OperatorState], steps: list[StreamNode]) -> str:
        old = {each.uid for each in rivals if each.shape == shape}
        new = {each.uid for each in steps if each.shape == shape}
        return "" if old == new else f"{len(new)} steps match it now, {len(old)} did before"

    def _side_by_side(self) -> Iterator[str]:
        mine = [f"{each.uid}  {_shown(each)}" for each in self._manifest.operators]
        theirs = [
            f"{each.uid}  {each.shape.title if each.shape is not None else each.kind}"
            for each in self._nodes.values()
        ]
        width = max(map(len, [*mine, "in the checkpoint"]))
        for left, right in zip_longest(
            ["in the checkpoint", *mine], ["in the program", *theirs], fillvalue=""
        ):
            yield f"    {left:{width}}   {right}".rstrip()

    def _candidates(self, held: OperatorState) -> list[OperatorUid]:
        """Steps that may be meant, most likely first; a sink keeps its uid."""
        kind = held.shape.kind if held.shape is not None else None
        fitting = [
            node
            for node in self._nodes.values()
            if (node.kind.name == kind if kind is not None else node.name == held.name)
            and (node.kind.role is not Role.SINK or node.uid == held.uid)
            and (node.shape is None or node.shape.automatic or node.uid not in self._held)
        ]
        fitting.sort(key=lambda node: -_likeness(held.shape, node.shape))
        return [node.uid for node in fitting]


def _counted(held: OperatorState) -> bool:
    """Whether the uid was made by counting, or looks like it where the checkpoint does not say."""
    if held.shape is not None:
        return held.shape.automatic
    return _number(held.uid) > 0 and held.uid == f"{held.name}-{_number(held.uid)}"


def _number(uid: OperatorUid) -> int:
    found = re.search(r"-(\d+)$", uid)
    return int(found[1]) if found else 0


def _change(then: Shape, now: Shape, contested: bool) -> str:
    """What tells a step from the one that had its uid; where no other can be meant, one of function and place suffices."""
    if then.kind != now.kind:
        return f"its step was {then.title!r} and is {now.title!r} now"
    moved, replaced = then.place != now.place, then.function != now.function
    if not (moved or replaced) or (not contested and not (moved and replaced)):
        return ""
    changes = [f"its function was {then.function} and is {now.function} now"] if replaced else []
    if moved:
        changes.append(f"its position was {_at(then)} and is {_at(now)} now")
    return ", ".join(changes)


def _at(shape: Shape) -> str:
    return f"[{', '.join(shape.place)}]"


def _likeness(then: Shape | None, now: Shape | None) -> int:
    if then is None or now is None:
        return 0
    return (
        4 * (then.function == now.function) + 2 * (then.place == now.place) + (then.key_type == now.key_type)
    )


def _shown(held: OperatorState) -> str:
    state = "" if held.stateless else "  has state"
    return f"{held.shape.title if held.shape is not None else held.name}{state}"
