"""Lease acquisition: at once, after the holder's lease has expired, or as a standby."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from tidegate.backends.spi import Decisions
from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.ids import FencingTerm, PipelineId, RunId
from tidegate.runtime.checkpoint.record import Record, read_record
from tidegate.twophase.fencing import Lease, Refuse, Take, Verdict, judge
from tidegate.twophase.process import alive, this_process

__all__ = ["LeaseAcquirer"]

_LOOK_S: Final = 0.5


class LeaseAcquirer:
    """Watches the record of a pipeline until `run` may own it."""

    def __init__(
        self, decisions: Decisions, pipeline: PipelineId, run: RunId, clock: Clock, lease_ms: int
    ) -> None:
        self.record: Record | None = None
        """The storage's last answer."""
        self.tag: str | None = None
        """The tag that a swap of the record needs."""
        self._decisions = decisions
        self._pipeline = pipeline
        self._run = run
        self._clock = clock
        self._lease_ms = lease_ms
        self._since: float | None = None
        """When the current record was first seen; None before the first read."""
        self._take: Take | None = None
        """The outcome of standing by; the swap of the record checks that it still holds."""

    def acquire(self, say: Callable[[str], None]) -> Lease:
        """Wait until the pipeline may be owned, unless standing by has; the lease to own it by.

        Raises:
            ConfigError: a live process owns it.
        """
        me = this_process(FencingTerm(0), self._run)
        verdict, self._take = self._take or self._judge(me), None
        said = False
        while not isinstance(verdict, Take):
            if isinstance(verdict, Refuse):
                raise ConfigError(
                    f"pipeline {self._pipeline!r}: {verdict.reason}; stop it first: tidegate stop {self._pipeline}"
                )
            if not said and self.record is not None:
                said, lease = True, self.record.lease
                say(
                    f"pipeline {self._pipeline!r} was owned by pid {lease.pid} on {lease.host}; "
                    f"waiting {self._lease_ms / 1000:g} s to see whether it is alive"
                )
            self._clock.sleep(min(_LOOK_S, verdict.remaining_ms / 1000))
            verdict = self._judge(me)
        return msgspec.structs.replace(me, term=verdict.term)

    def stand_by(self, say: Callable[[str], None]) -> Record | None:
        """Wait while an owner renews its lease, alive or not, until it is time to `acquire`.

        The answer is the record of an owner that ended by itself meanwhile.
        """
        me = this_process(FencingTerm(0), self._run)
        owner: RunId | None = None
        while not isinstance(verdict := self._judge(me, standing_by=True), Take):
            assert self.record is not None
            if owner != (lease := self.record.lease).run:
                owner = lease.run
                say(f"standing by for run {owner} of pid {lease.pid} on {lease.host}")
            self._clock.sleep(_LOOK_S)
        if owner is not None and not self._owned:
            return self.record
        self._take = verdict
        return None

    @property
    def _owned(self) -> bool:
        return self.record is not None and self.record.status == "running"

    def _judge(self, me: Lease, *, standing_by: bool = False) -> Verdict:
        record, tag = read_record(self._decisions, self._pipeline)
        if self._since is None or tag != self.tag:
            self.record, self.tag, self._since = record, tag, self._clock.monotonic()
        return judge(
            record.lease if record is not None else None,
            me,
            holder_alive=alive(record.lease) if record is not None and self._owned else False,
            unchanged_ms=int((self._clock.monotonic() - self._since) * 1000),
            lease_ms=self._lease_ms,
            standing_by=standing_by,
        )
