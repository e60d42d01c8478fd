"""An operator of another package: adds up the payments of each account and window as long as a batch lasts."""

from __future__ import annotations

from typing import Any, Final

from tidegate.runtime.operators.operator import Bundling, Call, Emitted, StepInput, StepKind

__all__ = ["LOCAL_SUMS"]


class LocalSums(Bundling):
    """Takes (account, amount); emits (account, window, amount, payments), at the time of the last payment."""

    def __init__(self, window_ms: int) -> None:
        super().__init__((Call("emit", self._add),))
        self._window_ms = window_ms
        self._sums: dict[tuple[str, int], list[int]] = {}

    def finish_batch(self) -> Emitted | None:
        """Emit the sums."""
        sums, self._sums = self._sums, {}
        if not sums:
            return None
        values = [(account, window, amount, count) for (account, window), (amount, count, _) in sums.items()]
        return values, [time for _, _, time in sums.values()]

    def _add(self, payment: tuple[str, int], timestamp: int) -> tuple[()]:
        account, amount = payment
        held = self._sums.setdefault((account, timestamp // self._window_ms), [0, 0, timestamp])
        held[0] += amount
        held[1] += 1
        held[2] = timestamp
        return ()


def _open(node: Any, context: Any) -> LocalSums:
    return LocalSums(node.payload)


LOCAL_SUMS: Final = StepKind(
    "local_sums", _open, inputs=(StepInput(takes="insert-only"),), gives="insert-only", nests=True
)
