"""Audited sources with one fault each. Not collected by itself: `test_audited.py` proves that the kit finds every fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.connectors.files import RecordFileSource, TextFormat
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import Extent, Part, Remaining
from tidegate.testing.audited import AuditedSourceSuite
from tidegate.testing.source import SourceTarget


class Broken(AuditedSourceSuite):
    source: type[RecordFileSource]

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        (tmp_path / "a").write_text("one\ntwo\nsix\n")
        return SourceTarget(self.source(str(tmp_path), TextFormat()), ["one", "two", "six"])


class ForgetsTheRest(RecordFileSource):
    def extent(self, remaining: Remaining | None = None) -> Extent:
        return Extent(super().extent(remaining).parts)


class TestForgetsTheRest(Broken):
    source = ForgetsTheRest


class ReadsOn(RecordFileSource):
    def extent(self, remaining: Remaining | None = None) -> Extent:
        parts = super().extent(remaining).parts
        return Extent((*parts, *parts))


class TestReadsOn(Broken):
    source = ReadsOn


class NamesTheWrongRecord(RecordFileSource):
    def only(self, part: Part, position: int) -> FileSplit:
        return super().only(part, position // 2)


class TestNamesTheWrongRecord(Broken):
    source = NamesTheWrongRecord
