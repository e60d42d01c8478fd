"""Conformance kit for sinks with external claims: `ClaimingSinkSuite`.

Such a sink has `taking_over` (`SupportsTakeOver`) and a committer with `claim` (`SupportsClaim`). Two pipelines with the same
id and different checkpoint storages use the same external names; the second one must be refused before it removes anything.

Example:
    class TestFiles(ClaimingSinkSuite):
        @pytest.fixture
        def target(self, tmp_path: Path) -> SinkTarget:
            return SinkTarget(FileSink(tmp_path, TextLines()), lambda: lines_of(tmp_path))
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from tidegate.connectors.spi import SupportsTakeOver
from tidegate.errors import ConfigError
from tidegate.testing.sink import CommittingSinkSuite, SinkRig, SinkTarget
from tidegate.twophase.spi import CommitAnswer, SupportsClaim

__all__ = ["ClaimClauses", "ClaimingSinkSuite"]

_FIRST, _SECOND = "file:///state/first", "file:///state/second"
_AT_ONCE = 4


class ClaimClauses:
    """Clauses of claims."""

    def test_another_storage_is_refused_before_any_change(self, target: SinkTarget) -> None:
        """A pipeline with the same id and another storage can neither claim nor abort; the first can still commit."""
        first, second = SinkRig(target, home=_FIRST), SinkRig(target, home=_SECOND)
        _claim(first)
        work = first.epoch(target.records, 1)
        with pytest.raises(ConfigError):
            _claim(second)
        with pytest.raises(ConfigError):
            second.abort_except()
        assert first.commit(work) == [CommitAnswer.COMMITTED]
        first.see(target.records)

    def test_a_claim_outlives_its_output(self, target: SinkTarget) -> None:
        """Aborting leftovers keeps the claim: an idle pipeline is still the owner and may claim again."""
        first, second = SinkRig(target, home=_FIRST), SinkRig(target, home=_SECOND)
        _claim(first)
        first.commit(first.epoch(target.records, 1))
        first.abort_except()
        with pytest.raises(ConfigError):
            _claim(second)
        _claim(first)
        assert first.abort_except() == 0
        first.see(target.records)

    def test_a_takeover_replaces_the_claim(self, target: SinkTarget) -> None:
        """A takeover replaces the claim: the prepared output of the first pipeline is aborted, and it is refused."""
        first, second = SinkRig(target, home=_FIRST), SinkRig(target, home=_SECOND)
        _claim(first)
        work = first.epoch(target.records[:5], 1)
        sink = target.sink
        assert isinstance(sink, SupportsTakeOver), "the sink cannot take over; use CommittingSinkSuite"
        taking = replace(second, target=replace(target, sink=sink.taking_over()))
        _claim(taking)
        assert taking.abort_except() >= 1
        with pytest.raises(ConfigError):
            first.abort_except()
        _claim(second)
        assert second.commit(work)[0] is not CommitAnswer.COMMITTED
        assert second.commit(second.epoch(target.records[5:], 1, attempt="2")) == [CommitAnswer.COMMITTED]
        second.see(target.records[5:])

    def test_of_several_concurrent_claims_one_is_accepted(self, target: SinkTarget) -> None:
        """Of several concurrent claims exactly one is accepted; all others are refused."""
        rigs = [SinkRig(target, home=f"file:///state/{number}") for number in range(_AT_ONCE)]
        together = Barrier(_AT_ONCE)

        def accepted(rig: SinkRig) -> bool:
            together.wait()
            return _is_accepted(rig)

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            first = list(threads.map(accepted, rigs))
        assert first.count(True) == 1
        assert [_is_accepted(rig) for rig in rigs] == first


class ClaimingSinkSuite(ClaimClauses, CommittingSinkSuite):
    """All clauses of a sink with external claims."""


def _claim(rig: SinkRig) -> None:
    with rig.committer() as committer:
        assert isinstance(committer, SupportsClaim), "the committer cannot claim; use CommittingSinkSuite"
        committer.claim()


def _is_accepted(rig: SinkRig) -> bool:
    try:
        _claim(rig)
    except ConfigError:
        return False
    return True
