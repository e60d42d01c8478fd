"""A start sets aside what another pipeline claims for its output, if that is asked for and there is such a claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.runtime.test_job import ORDERS, Told, before as before, start, storage as storage, work
from tidegate.backends.storage import MemoryStorage, decisions_of
from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import ConfigError, UnavailableError
from tidegate.runtime.checkpoint.committers import Committers
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.record import read_record
from tidegate.twophase.spi import Committer, CommitterContext, Retry


class Claiming(Told):
    """A sink that claims a name, which here is somebody else's unless it is taken over."""

    taking = False

    def taking_over(self) -> Claiming:
        taking = Claiming()
        taking.asked, taking.taking = self.asked, True
        return taking

    def open_committer(self, context: Any) -> Any:
        if not self.taking:
            raise ConfigError("the name is somebody else's")
        return super().open_committer(context)


def test_what_another_pipeline_claims_is_taken_over_if_the_start_says_so() -> None:
    storage = MemoryStorage()
    refused = start(storage, Claiming(), [])
    refused.acquire()
    with pytest.raises(ConfigError, match="the name is somebody else's"):
        refused.start_point()
    refused.leave("stopped")

    sink = Claiming()
    taking = start(storage, sink, [], take_over=True)
    taking.acquire()

    assert taking.start_point().checkpoint is None
    assert sink.asked == ["abort except 0"]


def test_a_restart_does_not_take_over_again() -> None:
    taking = start(MemoryStorage(), Claiming(), [], take_over=True)
    taking.acquire()
    taking.start_point()

    with pytest.raises(ConfigError, match="the name is somebody else's"):
        taking.start_point()


def test_a_committer_claims_before_it_commits_or_removes_anything() -> None:
    class Claims(Told):
        def open_committer(self, context: CommitterContext) -> Committer:
            committer: Any = super().open_committer(context)
            committer.claim = lambda: self.asked.append(f"claim for {context.home}")
            return cast("Committer", committer)

    storage, sink = MemoryStorage("claims"), Claims()
    startup = start(storage, sink, [])
    startup.acquire()
    startup.start_point()

    assert sink.asked == ["claim for memory://claims", "abort except 0"]


def test_what_cannot_be_claimed_now_is_committed_later(before: Callable[..., Pipeline]) -> None:
    class Away(Told):
        def open_committer(self, context: CommitterContext) -> Committer:
            committer: Any = super().open_committer(context)

            def claim() -> None:
                raise UnavailableError("the directory does not answer")

            committer.claim = claim
            return cast("Committer", committer)

    pipeline = before([1], [])
    graph = start(MemoryStorage(), Away(), []).program.graph(None)
    committers = Committers(pipeline, graph, SYSTEM_CLOCK, "memory:", take_over=False)

    assert committers.commit((work(1),)) == ((work(1), Retry("the directory does not answer")),)


def test_a_program_whose_id_is_new_in_each_run_has_no_home() -> None:
    homes: list[str] = []

    class Asks(Told):
        def open_committer(self, context: CommitterContext) -> Committer:
            homes.append(context.home)
            return super().open_committer(context)

    startup = start(MemoryStorage(), Asks(), [])
    startup.program = replace(startup.program, named=False)
    startup.acquire()
    startup.start_point()

    assert homes == [""]


def test_taking_over_is_refused_where_no_sink_claims_anything() -> None:
    storage = MemoryStorage()

    with pytest.raises(
        ConfigError,
        match=r"^--take-over has no effect: no sink of this program holds an external claim; leave it out$",
    ):
        start(storage, Told(), [], take_over=True).acquire()
    assert read_record(decisions_of(storage), ORDERS)[0] is None
