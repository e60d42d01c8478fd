"""A start sets aside what another pipeline claims for its output, if that is asked for and there is such a claim."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.test_job import ORDERS, Told, start
from tidegate.backends.storage import MemoryStorage, decisions_of
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.record import read_record


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


def test_taking_over_is_refused_where_no_sink_claims_anything() -> None:
    storage = MemoryStorage()

    with pytest.raises(
        ConfigError,
        match=r"^--take-over sets aside what another pipeline claims for its output; got a program whose sinks claim "
        r"nothing; leave it out$",
    ):
        start(storage, Told(), [], take_over=True).acquire()
    assert read_record(decisions_of(storage), ORDERS)[0] is None
