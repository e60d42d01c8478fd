from __future__ import annotations

import sys
from typing import Any

import pytest

from tidegate.errors import ConfigError, MissingExtraError
from tidegate.spark import register


def test_a_session_without_data_sources_of_python_is_refused() -> None:
    session: Any = object()
    with pytest.raises(
        ConfigError, match=r"^this session takes no data sources written in Python; expected Spark 4.1 or"
    ):
        register(session)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tidegate.runtime.spark.datasource", None)
    session: Any = object()
    with pytest.raises(
        MissingExtraError, match=r"^the data sources need PySpark 4.1 or newer; run: pip install 'tidegate"
    ):
        register(session)
