"""Names come back as what they were made of, and nobody else's name is taken for one of ours."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid, PipelineId
from tidegate.twophase.naming import (
    OutputName,
    WorkName,
    escape,
    owner_name,
    parse_output,
    parse_work,
    tag_of,
    unescape,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
numbers = st.integers(min_value=0, max_value=2**31)
outputs = st.builds(
    OutputName,
    prefix=st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,10}", fullmatch=True).filter(str.isascii),
    lineage=texts,
    branch=numbers,
    tag=st.text("0123456789abcdef", min_size=8, max_size=8),
    subtask=numbers,
    checkpoint=numbers,
    suffix=st.sampled_from(["", ".txt", ".jsonl", ".jsonl.gz"]),
    part=numbers,
)
works = st.builds(
    WorkName,
    lineage=texts,
    branch=numbers,
    subtask=numbers,
    checkpoint=st.none() | numbers,
    attempt=texts,
    part=numbers,
)


@given(outputs)
def test_an_output_name_parses_to_what_it_was_built_from(name: OutputName) -> None:
    assert parse_output(name.build()) == name


@given(works)
def test_a_work_name_parses_to_what_it_was_built_from(name: WorkName) -> None:
    assert parse_work(name.build()) == name


@given(texts)
def test_an_escaped_text_is_safe_and_comes_back(text: str) -> None:
    assert set(escape(text)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_%")
    assert unescape(escape(text)) == text


@given(st.text(max_size=40))
def test_what_parses_is_exactly_what_would_be_built(text: str) -> None:
    for name in (parse_output(text), parse_work(text)):
        assert name is None or name.build() == text


@pytest.mark.parametrize(
    "name",
    [
        "part-9f2c.0-0a1b2c3d-1-7.jsonl\n",
        "part-9f2c.0-0a1b2c3d-1-07.jsonl",
        "part-9f2c.0-0a1b2c3d-1.jsonl",
        "part-9f2c.0-0A1B2C3D-1-7.jsonl",
        "part-9f%2c.0-0a1b2c3d-1-7.jsonl",
        "part-9f%61.0-0a1b2c3d-1-7.jsonl",
        "part-9f%FF.0-0a1b2c3d-1-7.jsonl",
        ".part-9f2c.0-0a1b2c3d-1-7.jsonl",
        "copy of part-9f2c.0-0a1b2c3d-1-7.jsonl",
        "part-9f2c.0-0a1b2c3d-1-\N{ARABIC-INDIC DIGIT SEVEN}.jsonl",
    ],
)
def test_foreign_output_names_are_nobodys(name: str) -> None:
    assert parse_output(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "9f2c.0-1-7-a.inprogress",
        "9f2c.0-1-open-a.pending",
        "9f2c.0-1-7-a.pending.bak",
        "9f2c.0-1-7-.pending",
        "9f2c.0-1-7-%zz.pending",
        "x9f2c.0-1-7-a.pendin",
    ],
)
def test_foreign_work_names_are_nobodys(name: str) -> None:
    assert parse_work(name) is None


def test_owners_with_similar_names_differ() -> None:
    pairs = [
        ("a", "b"),
        ("a.b", "c"),
        ("a", "b.c"),
        ("a/b", "c"),
        ("a%2Fb", "c"),
        ("A", "b"),
        ("orders2", "b"),
    ]
    names = [owner_name(PipelineId(pipeline), OperatorUid(uid)) for pipeline, uid in pairs]
    tags = [tag_of(PipelineId(pipeline), OperatorUid(uid)) for pipeline, uid in pairs]

    assert len(set(names)) == len(set(tags)) == len(pairs)
    assert not any("/" in name for name in names)


@pytest.mark.parametrize("text", ["..", ".", "../up", "a\0b", "-rf"])
def test_texts_that_mean_something_to_a_file_system_lose_their_meaning(text: str) -> None:
    assert not set(escape(text)) & set("./\0-")


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="a name is empty; expected a pipeline id"):
        escape("")


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the name '\\ud800' is not valid Unicode"):
        escape("\ud800")


@pytest.mark.parametrize("pipeline", ["p" * 256, "ü" * 43])
def test_a_name_too_long_for_a_file_is_refused(pipeline: str) -> None:
    with pytest.raises(ConfigError, match=r"is too long for a file name; .*; expected at most 255; shorten"):
        owner_name(PipelineId(pipeline), OperatorUid("uid"))


@pytest.mark.parametrize("prefix", ["", ".hidden", "a/b", "a b", "-x"])
def test_a_prefix_that_hides_or_leaves_the_directory_is_refused(prefix: str) -> None:
    with pytest.raises(
        ConfigError, match=r"file prefix .* cannot be part of a file name; .*not beginning with a dot"
    ):
        OutputName(prefix, "9f2c", 0, "0a1b2c3d", 0, 1).build()


@pytest.mark.parametrize("suffix", ["txt", ".", "./x", ".a-b"])
def test_a_suffix_that_is_none_is_refused(suffix: str) -> None:
    with pytest.raises(
        ConfigError, match=r"file suffix .* cannot be part of a file name; .*beginning with a dot"
    ):
        OutputName("part", "9f2c", 0, "0a1b2c3d", 0, 1, suffix).build()
