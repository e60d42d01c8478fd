"""The two phases of a file sink: temporary files at the barrier, their final names behind the decision, and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.files import FileSink, TextLines
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import TidegateError
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import Committable, CommitterContext

Env = StreamExecutionEnvironment
WORDS = [f"word {number}" for number in range(12)]


@dataclass(frozen=True)
class Crashing(FileSink):
    """Ends the job before the decision, or behind it and before the commit, as long as a file says so."""

    orders: Path = Path()

    def pre_commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        if (self.orders / "before").exists():
            raise RuntimeError("crashed before the decision")

    def open_committer(self, context: CommitterContext) -> Any:
        committer, orders = super().open_committer(context), self.orders

        class Committer(type(committer)):  # type: ignore[misc]  # whichever class it is
            def commit(self, committables: Sequence[Committable]) -> Any:
                if (orders / "behind").exists():
                    raise RuntimeError("crashed behind the decision")
                return super().commit(committables)

        committer.__class__ = Committer
        return committer


@pytest.mark.spec("003/EX-35", "003/SNK-05", "003/SNK-07", "003/SNK-08", "003/SNK-09")
def test_temporary_files_are_discarded_before_the_decision_and_renamed_behind_it(
    anywhere: Env, tmp_path: Path
) -> None:
    output, before, behind = tmp_path / "output", tmp_path / "before", tmp_path / "behind"
    output.mkdir()

    def start() -> None:
        sink = Crashing(output, TextLines(), orders=tmp_path)
        anywhere.from_collection(WORDS).sink_to(sink).uid("words")
        anywhere.execute("words to files")

    def temporary() -> set[str]:
        return {path.name for path in (output / ".tidegate").rglob("*.pending")}

    before.touch()
    with pytest.raises(TidegateError, match="crashed before the decision"):
        start()
    discarded = temporary()
    assert len(discarded) == anywhere.get_parallelism()
    assert visible(output) == []

    before.unlink()
    behind.touch()
    with pytest.raises(TidegateError, match="crashed behind the decision"):
        start()
    decided = temporary()
    assert len(decided) == anywhere.get_parallelism()
    assert not decided & discarded
    assert visible(output) == []

    behind.unlink()
    start()
    assert temporary() == set()
    assert visible(output) == sorted(WORDS)


def visible(output: Path) -> list[str]:
    return sorted(line for path in output.glob("*.txt") for line in path.read_text().splitlines())
