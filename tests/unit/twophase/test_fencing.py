"""Leases: a dead holder is replaced at once, a live one is named, an invisible one is waited for."""

from __future__ import annotations

import msgspec
import pytest

from tidegate.ids import FencingTerm, RunId
from tidegate.twophase.fencing import LEASE_MS, Lease, Refuse, Take, Wait, judge

HOLDER = Lease("ada", "b00t:1", 4711, 99, FencingTerm(7), RunId("run-1"))
ME = Lease("ada", "b00t:1", 815, 120, FencingTerm(0), RunId("run-2"))


def test_a_pipeline_nobody_held_is_taken_under_the_first_term() -> None:
    assert judge(None, ME, holder_alive=None, unchanged_ms=0) == Take(FencingTerm(1))


def test_a_holder_that_died_on_this_host_is_replaced_at_once() -> None:
    assert judge(HOLDER, ME, holder_alive=False, unchanged_ms=0) == Take(FencingTerm(8))


def test_a_live_holder_is_refused_by_name() -> None:
    verdict = judge(HOLDER, ME, holder_alive=True, unchanged_ms=10 * LEASE_MS)

    assert verdict == Refuse("the pipeline is already running as run run-1 in process 4711 on host ada")


@pytest.mark.parametrize(
    ("unchanged_ms", "verdict"),
    [(0, Wait(10_000)), (9_999, Wait(1)), (10_000, Take(FencingTerm(8))), (60_000, Take(FencingTerm(8)))],
    ids=["just seen", "almost", "run out", "long ago"],
)
def test_a_holder_elsewhere_is_waited_for_until_its_lease_ran_out(
    unchanged_ms: int, verdict: Wait | Take
) -> None:
    assert judge(HOLDER, ME, holder_alive=None, unchanged_ms=unchanged_ms) == verdict


def test_the_lease_time_can_be_set() -> None:
    assert judge(HOLDER, ME, holder_alive=None, unchanged_ms=50, lease_ms=80) == Wait(30)


def test_the_same_run_takes_its_own_lease_again() -> None:
    again = msgspec.structs.replace(HOLDER, term=FencingTerm(0))

    assert judge(HOLDER, again, holder_alive=True, unchanged_ms=0) == Take(FencingTerm(8))


def test_another_run_of_the_same_process_is_refused() -> None:
    other = msgspec.structs.replace(HOLDER, run=RunId("run-2"))

    assert isinstance(judge(HOLDER, other, holder_alive=True, unchanged_ms=0), Refuse)


@pytest.mark.parametrize(
    ("unchanged_ms", "verdict"),
    [(9_999, Wait(1)), (10_000, Take(FencingTerm(8)))],
    ids=["renewed", "hanging"],
)
def test_who_stands_by_replaces_a_live_holder_that_does_not_renew_its_lease(
    unchanged_ms: int, verdict: Wait | Take
) -> None:
    assert judge(HOLDER, ME, holder_alive=True, unchanged_ms=unchanged_ms, standing_by=True) == verdict
