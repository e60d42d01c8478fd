"""Refuses a function that asks for new state while state of the same kind is left: it may be that state, renamed."""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.environment import RestoredOperator

__all__ = ["refuse_renamed"]


def refuse_renamed(uid: OperatorUid, context: OperatorContext, restored: RestoredOperator) -> None:
    """Look at the states, of keys and without, that an opened function has asked for and that were restored.

    Nothing is refused where the user allows state to be left behind.

    Raises:
        ConfigError: a restored state was not asked for, and a new one of its kind was.
    """
    if restored.may_leave:
        return
    pairs = context.states.in_question()
    if context.store is not None:
        pairs += context.store.in_question()
    if pairs:
        old, new = (
            ", ".join(repr(name) for name in dict.fromkeys(side)) for side in zip(*pairs, strict=True)
        )
        raise ConfigError(
            f"operator {uid!r}: its checkpoint holds state {old}, which its function does not declare, and the function "
            f"declares {new}, which the checkpoint does not hold; if the state was renamed, give it its old name back; "
            "if not, start once with --allow-non-restored-state, and the new state begins empty; or start with --fresh"
        )
