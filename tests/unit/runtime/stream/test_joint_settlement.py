"""Several sinks of one checkpoint: what each promises before the decision, and what is said of all of them after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate.connectors.files import FileSink, TextLines
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import Committable

Env = StreamExecutionEnvironment


@dataclass(frozen=True)
class Asked(FileSink):
    """Notes what it is asked before each decision, and refuses the first time."""

    notes: Path = Path()

    def pre_commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        visible = [path.name for path in Path(self.directory).glob("*.txt")]
        first = not self.notes.exists()
        with self.notes.open("a") as file:
            subtasks = sorted(each.subtask for each in committables)
            file.write(msgspec.json.encode((checkpoint, subtasks, visible)).decode() + "\n")
        if first:
            raise UnavailableError("not yet")


def lines(directory: Path) -> list[str]:
    return sorted(line for path in directory.glob("*.txt") for line in path.read_text().splitlines())


def test_a_sink_is_asked_about_the_work_of_all_writers_before_any_of_it_is_visible(
    anywhere: Env, tmp_path: Path
) -> None:
    asked, notes = tmp_path / "asked", tmp_path / "notes"
    asked.mkdir()
    words = [f"word {number}" for number in range(20)]
    stream = anywhere.from_collection(words)
    stream.sink_to(Asked(asked, TextLines(), notes=notes))

    anywhere.execute()

    refused, *granted = [msgspec.json.decode(line) for line in notes.read_text().splitlines()]
    assert len({tuple(subtasks) for _, subtasks, _ in (refused, *granted)}) == 1
    assert len(refused[1]) == anywhere.get_parallelism()
    assert [visible for _, _, visible in (refused, *granted)] == [[]] * (1 + len(granted))
    assert granted
    assert granted[-1][0] > refused[0]
    assert lines(asked) == sorted(words)


def test_the_outcome_of_each_sink_is_in_the_record_of_events(anywhere: Env, tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    anywhere.configure({"pipeline.event-log": str(log)})
    for name in ("orders", "audit"):
        (tmp_path / name).mkdir()
    stream = anywhere.from_collection(["a", "b", "c", "d", "e", "f"])
    stream.sink_to(FileSink(tmp_path / "orders", TextLines())).uid("orders")
    stream.sink_to(FileSink(tmp_path / "audit", TextLines())).uid("audit")

    anywhere.execute()

    events = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
    (decided,) = [event for event in events if event["what"] == "decided" and event.get("sinks")]
    answers = [event["sinks"] for event in events if event["what"] == "committed"]
    assert decided["sinks"] == {name: anywhere.get_parallelism() for name in ("orders", "audit")}
    assert decided["transactions"] == 2 * anywhere.get_parallelism()
    assert answers[-1] == {}
    assert [event["what"] for event in events if event.get("checkpoint") == decided["checkpoint"]][
        -1
    ] == "settled"
