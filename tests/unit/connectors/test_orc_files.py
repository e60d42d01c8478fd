"""ORC files are cut between stripes, and only rows and columns that are wanted become dictionaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, strategies as st

from tests.unit.connectors.test_file_formats import read
from tidegate.connectors.files import OrcFormat, RecordFileSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError

ROWS = [{"name": f"name {number}", "id": number, "half": number / 2} for number in range(5_000)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five stripes of a thousand or so rows: pyarrow looks at a stripe's size only every now and then."""
    path = tmp_path_factory.mktemp("orc") / "a.orc"
    with orc.ORCWriter(str(path), stripe_size=1) as writer:
        for start in range(0, len(ROWS), 1_000):
            writer.write(pa.Table.from_pylist(ROWS[start : start + 1_000]))
    assert orc.ORCFile(path).nstripes > 3
    return path


@given(most=st.integers(1, 200_000))
def test_every_row_is_read_once_however_a_file_is_cut(path: Path, most: int) -> None:
    assert read(path, OrcFormat(("id",)), most) == [{"id": row["id"]} for row in ROWS]


def test_a_file_has_as_many_parts_as_it_has_stripes(path: Path) -> None:
    parts = OrcFormat().parts(str(path), 1)

    assert len(parts) == orc.ORCFile(path).nstripes
    assert [part.stop for part in parts[:-1]] == [part.at for part in parts[1:]]
    assert (parts[0].at, parts[-1].stop) == (0, len(ROWS))


def test_a_part_that_was_begun_goes_on_at_its_row(path: Path) -> None:
    part = OrcFormat().parts(str(path), 1)[1]
    for at in (part.at, part.at + 7, part.stop - 1):
        rest = type(part)(part.id, part.path, at, part.stop, begun=True)
        pieces = list(OrcFormat().read(rest))
        assert [value for piece in pieces for value in piece.values] == ROWS[at : part.stop]
        assert [row for piece in pieces for row in list(piece.bounds)[:-1]] == list(range(at, part.stop))


def test_rows_that_are_not_wanted_are_left_out_by_columns_that_are_not(path: Path) -> None:
    wanted = OrcFormat(("name",), where=[("id", ">=", 4_998), ("half", "!=", 2_499.5)])

    assert read(path, wanted, 1) == [{"name": "name 4998"}]
    with pytest.raises(ConfigError, match=r"a.orc has no column 'place'; expected one of name, id, half"):
        read(path, OrcFormat(where=[("place", "==", "x")]))


@pytest.mark.parametrize("column", [["a", None], [[1], []], [True, False]], ids=["texts", "lists", "truths"])
def test_any_column_tells_how_many_rows_a_stripe_has(tmp_path: Path, column: list[Any]) -> None:
    with orc.ORCWriter(str(tmp_path / "a.orc"), stripe_size=1) as writer:
        for _ in range(3):
            writer.write(pa.table({"it": column * 1_000}))

    assert [row["it"] for row in read(tmp_path / "a.orc", OrcFormat(), 1)] == column * 3_000


def test_several_readers_share_a_file(path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 2}
    )
    source = RecordFileSource(str(path), OrcFormat(("id",), [("id", "<", 4_000)]), part_bytes=1)

    found = env.from_source(source).map(lambda row: row["id"]).execute_and_collect()

    assert sorted(found) == list(range(4_000))
