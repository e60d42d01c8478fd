from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.errors import ConfigError
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.journals import journaled
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Hash, KeyedForward, Transformation

Step = Callable[..., Transformation]


@pytest.fixture
def sinks(step: Step) -> list[Transformation]:
    """Two sources; accounts behind one of them with totals behind, and visits behind both."""
    payments, pages = step("source", uid="payments"), step("source", uid="pages")
    accounts = step("process", payments, partition=Hash(abs), uid="accounts")
    totals = step("process", accounts, partition=Hash(abs), uid="totals")
    visits = step("process", pages, partition=Hash(abs), uid="visits")
    return [step("sink", totals), step("sink", visits), step("sink", payments)]


def graph(sinks: list[Transformation], **settings: Any) -> JobGraph:
    return build_job_graph(build_stream_graph(sinks, parallelism=2, **settings))


def told(job: JobGraph) -> tuple[set[str], set[str], set[str]]:
    """Vertices with a journal, those that trace, and edges with origins, as both of their ends know them."""
    edges = {edge for vertex in job.vertices.values() for edge in vertex.outputs if edge.traced}
    assert edges == {edge for vertex in job.vertices.values() for edge in vertex.inputs if edge.traced}
    vertices = job.vertices.items()
    return (
        {name for name, vertex in vertices if vertex.journaled},
        {name for name, vertex in vertices if vertex.traced},
        {edge.name for edge in edges},
    )


def test_only_a_named_operator_and_what_is_before_it_trace(sinks: list[Transformation]) -> None:
    job = graph(sinks)

    assert told(job) == (set(), set(), set())
    assert told(journaled(job, ["accounts"])) == (
        {"accounts"},
        {"payments", "accounts"},
        {"payments->accounts"},
    )
    assert told(journaled(job, ["totals"])) == (
        {"totals"},
        {"payments", "accounts", "totals"},
        {"payments->accounts", "accounts->totals"},
    )


def test_without_a_name_all_operators_with_keys_have_journals(sinks: list[Transformation]) -> None:
    kept, traced, _ = told(journaled(graph(sinks), ()))

    assert kept == {"accounts", "totals", "visits"}
    assert traced == {"payments", "pages", "accounts", "totals", "visits"}


@pytest.mark.parametrize("uid", ["acounts", "payments"], ids=["unknown", "without keys"])
def test_an_operator_that_has_no_keys_is_refused(sinks: list[Transformation], uid: str) -> None:
    message = f"state.log.operators names uid '{uid}'; no keyed operator has it; keyed operators are accounts, totals, visits"
    with pytest.raises(ConfigError, match=message):
        journaled(graph(sinks), ["accounts", uid])


def test_a_batch_job_has_no_journals(sinks: list[Transformation]) -> None:
    job = journaled(graph(sinks, mode="BATCH"), ["accounts"])

    assert told(job) == (set(), set(), set())


def test_of_two_steps_with_keys_in_a_chain_one_can_have_a_journal(step: Step) -> None:
    accounts = step("process", step("source", uid="payments"), partition=Hash(abs), uid="accounts")
    totals = step("process", accounts, partition=KeyedForward(abs), uid="totals")

    job = graph([step("sink", totals)])

    assert journaled(job, ["totals"]).vertices["accounts"].journaled == ("totals",)
    assert journaled(job, ()).vertices["accounts"].journaled == ("accounts", "totals")
    assert journaled(job, ["totals"]).vertices["payments"].traced
