"""The page of settings names every setting there is, and none that is not."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from tidegate.runtime.options import JobOptions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_page_has_a_row_for_each_setting_with_its_meaning() -> None:
    rows = dict(re.findall(r"^\| `([A-Za-z.-]+)` \| .*? \| (.*) \|$", PAGE.read_text(), re.MULTILINE))

    fields = [field.metadata for field in dataclasses.fields(JobOptions) if "key" in field.metadata]
    assert rows == {field["key"]: field["doc"] for field in fields}
