from __future__ import annotations

import re
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import ConfigError, MissingExtraError
from tidegate.spark import register


def test_a_session_without_data_sources_of_python_is_refused() -> None:
    session: Any = object()
    with pytest.raises(
        ConfigError, match=r"^this session does not support Python data sources; expected Spark 4.1 or"
    ):
        register(session)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tidegate.runtime.spark.datasource", None)
    session: Any = object()
    with pytest.raises(
        MissingExtraError, match=r"^the data sources need PySpark 4.1 or newer; run: pip install 'tidegate"
    ):
        register(session)


@dataclass
class Running:
    """A session, and where it runs what."""

    pythonExec: str  # noqa: N815 # as in PySpark
    master: str = "local[2]"

    def __post_init__(self) -> None:
        self.sparkContext = self.dataSource = self
        self.registered: list[Any] = []

    def register(self, source: Any) -> None:
        self.registered.append(source)


def test_a_python_of_spark_that_cannot_import_us_is_named_with_the_one_that_can(tmp_path: Path) -> None:
    venv.create(tmp_path)
    session: Any = Running(str(tmp_path / "bin" / "python"))

    with pytest.raises(
        ConfigError,
        match=r"^spark runs .*/bin/python, which cannot import tidegate: ModuleNotFoundError: No module named 'tidegate'; start the "
        rf"session with PYSPARK_PYTHON={re.escape(sys.executable)} in",
    ):
        register(session)
    assert session.registered == []


def test_a_python_of_spark_that_is_not_there_is_named() -> None:
    session: Any = Running("/nowhere/python")

    with pytest.raises(ConfigError, match=r"^spark runs /nowhere/python, which .*: .*No such file"):
        register(session)


@pytest.mark.parametrize(
    ("python", "master"),
    [(sys.executable, "local[2]"), ("/opt/python", "spark://host:7077")],
    ids=["here", "away"],
)
def test_both_formats_are_made_known(python: str, master: str) -> None:
    session: Any = Running(python, master)

    register(session)

    assert [each.name() for each in session.registered] == ["tidegate", "tidegate-state"]
