"""Lease of a pipeline: the rules by which one process may run it.

Pure. The lease is stored with the decision, so only the holder of the newest fencing term can decide a checkpoint;
these rules only keep two live starts from fighting over it.

Example:
    >>> me = Lease("here", "boot", 12, 99, FencingTerm(0), RunId("run"))
    >>> judge(None, me, holder_alive=None, unchanged_ms=0)
    Take(term=1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from tidegate.ids import FencingTerm, RunId

__all__ = ["LEASE_MS", "Lease", "Refuse", "Take", "Verdict", "Wait", "judge"]

LEASE_MS = 10_000
"""How long a lease of another machine must be unchanged before it counts as expired."""


class Lease(msgspec.Struct, frozen=True):
    """The process that owns a pipeline, named so that it can be found and cannot be mistaken for another."""

    host: str
    boot_id: str
    """The boot and the process namespace `pid` is valid in."""
    pid: int
    start_time: int
    """When the process started, in clock ticks since boot: tells a reused pid apart."""
    term: FencingTerm
    run: RunId


@dataclass(frozen=True, slots=True)
class Take:
    """The pipeline is free; own it under this term."""

    term: FencingTerm


@dataclass(frozen=True, slots=True)
class Wait:
    """It is unknown whether the holder is alive; check again after this time."""

    remaining_ms: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """The holder is alive; do not start."""

    reason: str


Verdict: TypeAlias = Take | Wait | Refuse


def judge(
    current: Lease | None,
    me: Lease,
    *,
    holder_alive: bool | None,
    unchanged_ms: int,
    lease_ms: int = LEASE_MS,
    standing_by: bool = False,
) -> Verdict:
    """Whether `me` may own the pipeline that `current` holds.

    Args:
        current: The lease as stored, None if it was never held or was released.
        me: Who wants it; its term does not matter.
        holder_alive: What this machine knows about the holder, None if it runs (or ran) elsewhere.
        unchanged_ms: How long the stored lease was seen not to change.
        lease_ms: How long that must be.
        standing_by: Whether `me` waits for a live holder, too, and replaces one that lives and does not renew its lease.
    """
    if current is None:
        return Take(FencingTerm(1))
    following = Take(FencingTerm(current.term + 1))
    if current.run == me.run or holder_alive is False:
        return following
    if holder_alive and not standing_by:
        return Refuse(
            f"the pipeline is already running as run {current.run} in process {current.pid} on host {current.host}"
        )
    return following if unchanged_ms >= lease_ms else Wait(lease_ms - unchanged_ms)
