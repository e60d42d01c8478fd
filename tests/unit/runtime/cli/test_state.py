"""`tidegate state` over a pipeline of three checkpoints, word for word."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.keyed import KeyedStore, ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.backends.spi import BackendContext, StoredChunk, Timer
from tidegate.backends.storage import LocalStorage, StorageFiles
from tidegate.clock import ManualClock
from tidegate.connectors.base import RangeSplit
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId, SplitId
from tidegate.keys import KeyGroupRange
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, metadata_name
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.cli.main import main
from tidegate.runtime.operators.operator_list import OperatorList, written
from tidegate.runtime.operators.window.windows import TimeWindow, TimeWindowSerializer
from tidegate.types import Types

RUN = RunId("run-1")
CENTS = ValueStateDescriptor("cents", Types.LONG())
THINGS = ListStateDescriptor("things", Types.STRING())
SEEN = MapStateDescriptor("seen", Types.STRING(), Types.LONG())

Shown = Callable[..., tuple[int, str, str]]


def first(store: KeyedStore) -> None:
    store.bind("ann")
    store.state(CENTS).update(500)
    store.state(THINGS).add("tea")
    store.event_timers.register(Timer(5_000, "ann"))


def second(store: KeyedStore) -> None:
    store.bind("ann")
    store.state(CENTS).update(520)
    store.state(THINGS).add("cake")
    store.event_timers.delete(Timer(5_000, "ann"))
    store.bind_in("ann", TimeWindowSerializer.encode(TimeWindow(0, 1_000)))
    store.state(SEEN, namespaced=True).put("p1", 20)


def third(store: KeyedStore) -> None:
    store.bind("ann")
    store.state(THINGS).clear()
    store.bind("bob")
    store.state(CENTS).update(7)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The checkpoints of a pipeline that still runs; the last one is not settled."""
    storage, work = LocalStorage(tmp_path / "state"), tmp_path / "work"
    files = StorageFiles(storage.blobs, f"{RUN}/shared", inline_threshold=0)
    clock = ManualClock(1_700_000_000_000)
    pipeline = Pipeline(storage, PipelineId("orders"), RUN, clock)
    pipeline.acquire(lambda: LineageId("lineage1"), fresh=False, say=print)
    work.mkdir()
    store = KeyedStore(FilesystemBackend(), KeyGroupRange(0, 8), 8, [], BackendContext(work, files, {}))
    for number, change in enumerate((first, second, third), start=1):
        change(store)
        clock.advance(1_500)
        _decide(tmp_path / "state", pipeline, store, number, clock.now_ms())
    store.close()
    for number in (1, 2):
        pipeline.archive.mark_settled(Retained(RUN, CheckpointId(number)))
    return tmp_path / "state"


def _decide(root: Path, pipeline: Pipeline, store: KeyedStore, number: int, now_ms: int) -> None:
    checkpoint, before = CheckpointId(number), CheckpointId(number - 1) if number > 1 else None
    splits = () if number == 3 else (msgspec.msgpack.encode(RangeSplit(SplitId("part-0"), number * 10, 30)),)
    operators: tuple[OperatorState, ...] = (
        OperatorState(OperatorUid("payments"), "payments", 1, 8, splits=splits),
        OperatorState(
            OperatorUid("accounts"), "accounts", 1, 8, keyed=(store.snapshot(checkpoint, before).finish(),)
        ),
    )
    if number == 3:
        files = StorageFiles(LocalStorage(root).blobs, f"{RUN}/shared", inline_threshold=0)
        lists = (written(OperatorList("rules", (b"one", b"two")), files),)
        operators = (*operators, OperatorState(OperatorUid("rules"), "rules", 1, 8, lists=(lists,)))
    lineage = pipeline.record.lineage
    pipeline.archive.write(
        Manifest(pipeline.id, lineage, Branch(0), RUN, checkpoint, before, now_ms, operators, ())
    )
    pipeline.decide(checkpoint)


@pytest.fixture
def shown(root: Path, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Runs `tidegate state` on it: exit code, output, errors."""

    def show(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["state", *arguments, "--root", str(root)])
        return code, *capsys.readouterr()

    return show


def test_pipelines_and_their_checkpoints_are_listed(shown: Shown) -> None:
    code, out, _ = shown("list")

    assert code == 0
    assert [line.split(None, 4)[3:] for line in out.splitlines()] == [
        ["checkpoint", "time                     size  added  state    operators"],
        ["1", "2023-11-14 22:13:21.500  155   155    settled  payments, accounts"],
        ["2", "2023-11-14 22:13:23.000  463   308    settled  payments, accounts"],
        ["3", "2023-11-14 22:13:24.500  649   186    decided  payments, accounts, rules"],
    ]
    assert json.loads(shown("list", "orders", "--json")[1])[2] == {
        "pipeline": "orders",
        "status": "running",
        "lineage": "lineage1",
        "branch": 0,
        "checkpoint": 3,
        "time": "2023-11-14 22:13:24.500",
        "size": 649,
        "added": 186,
        "settled": False,
        "damage": None,
        "operators": ["payments", "accounts", "rules"],
    }


def test_a_storage_without_pipelines_lists_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "list", "--root", str(tmp_path / "empty"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_key_is_shown_with_all_its_states_and_timers(shown: Shown) -> None:
    assert shown("show", "orders", "ann", "--at", "1") == (
        0,
        "operator  state        at    value\n"
        "accounts  cents              500\n"
        "accounts  things       0     'tea'\n"
        "accounts  event timer  5000  set\n",
        "",
    )
    assert shown("show", "orders", "ann")[1] == (
        "operator  state  namespace  at    value\n"
        "accounts  cents                   520\n"
        "accounts  seen   [0, 1000)  'p1'  20\n"
    )
    assert json.loads(shown("show", "orders", "'ann'", "--state", "seen", "--json")[1]) == [
        {
            "operator": "accounts",
            "key": "ann",
            "state": "seen",
            "namespace": "[0, 1000)",
            "at": "p1",
            "value": 20,
        }
    ]


def test_a_difference_names_what_was_read_and_what_changed(shown: Shown) -> None:
    assert shown("diff", "orders", "1", "2") == (
        0,
        "source    split   from                                  to\n"
        "payments  part-0  {'next': 10, 'stop': 30, 'step': 1}  {'next': 20, 'stop': 30, 'step': 1}\n"
        "\n"
        "operator  key    state        namespace  at    before  after\n"
        "accounts  'ann'  cents                         500     520\n"
        "accounts  'ann'  seen         [0, 1000)  'p1'          20\n"
        "accounts  'ann'  things                  1             'cake'\n"
        "accounts  'ann'  event timer             5000  set\n".replace("from    ", "from   ", 1),
        "",
    )
    document = json.loads(shown("diff", "orders", "2", "3", "--key", "bob", "--json")[1])
    assert document["read"][0]["to"] is None
    assert [(row["key"], row["before"], row["after"]) for row in document["changes"]] == [("bob", None, 7)]


def test_the_history_of_a_key_goes_through_all_retained_checkpoints(shown: Shown) -> None:
    assert shown("history", "orders", "ann", "--state", "things") == (
        0,
        "checkpoint  time                     operator  state   at  before  after\n"
        "1           2023-11-14 22:13:21.500  accounts  things  0           'tea'\n"
        "2           2023-11-14 22:13:23.000  accounts  things  1           'cake'\n"
        "3           2023-11-14 22:13:24.500  accounts  things  0   'tea'\n"
        "3           2023-11-14 22:13:24.500  accounts  things  1   'cake'\n",
        "",
    )


@pytest.mark.parametrize(
    "command", [["show", "orders", "cyd"], ["history", "orders", "cyd"]], ids=["show", "history"]
)
def test_a_key_that_nothing_is_held_of_is_told_in_words_and_by_the_exit_code(
    shown: Shown, command: list[str]
) -> None:
    code, out, errors = shown(*command)

    assert (code, len(out.splitlines()), errors) == (1, 1, f"key {command[2]} has no state\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "order", "ann"], "has no pipeline 'order'; did you mean 'orders'?"),
        (["show", "zzz", "ann"], "has no pipeline 'zzz'; known are orders"),
        (
            ["show", "orders", "ann", "--at", "9"],
            "checkpoint 9 of pipeline 'orders' is not retained; retained are 1, 2, 3",
        ),
        (["diff", "orders", "1", "9"], "checkpoint 9 of pipeline 'orders' is not retained"),
        (
            ["show", "orders", "7"],
            "no operator has keys of type int; got 7; expected str of operator 'accounts'",
        ),
        (["history", "orders", "7"], "no operator has keys of type int"),
        (["show", "orders", "{}"], "{} cannot be a key: "),
        (
            ["show", "orders", "ann", "--operator", "x"],
            "has no keyed state of operator 'x'; known are accounts",
        ),
        (["diff", "orders", "1", "2", "--state", "x"], "has no state 'x'; known are cents, seen, things"),
    ],
)
def test_what_cannot_be_answered_says_what_can(shown: Shown, arguments: list[str], said: str) -> None:
    code, out, errors = shown(*arguments)

    assert (code, out) == (2, "")
    assert said in errors


def test_a_checkpoint_is_exported_as_parquet(shown: Shown, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    code, out, _ = shown("export", "orders", str(tmp_path / "out"), "--at", "2", "--json")

    assert code == 0
    files = {Path(name).parent.relative_to(tmp_path / "out").as_posix(): name for name in json.loads(out)}
    assert sorted(files) == [
        f"operator=accounts/{what}"
        for what in ("state=cents", "state=seen", "state=things", "timers=event", "timers=processing")
    ]
    assert pq.read_table(files["operator=accounts/state=cents"])["value"].to_pylist() == [520]
    code, _, errors = shown("export", "orders", str(tmp_path / "out"))
    assert (code, "is not empty; give a directory that does not exist yet" in errors) == (2, True)


def test_a_checkpoint_is_exported_as_lines(shown: Shown, tmp_path: Path) -> None:
    assert shown("export", "orders", str(tmp_path / "out"), "--at", "1", "--format", "jsonl")[0] == 0

    lines = (tmp_path / "out" / "state.jsonl").read_text().splitlines()
    assert [(row["state"], row["at"], row["value"]) for row in map(json.loads, lines)] == [
        ("cents", None, 500),
        ("things", 0, "tea"),
        ("event timer", 5_000, "set"),
    ]
    assert "is not empty" in shown("export", "orders", str(tmp_path / "out"), "--format", "jsonl")[2]


@pytest.mark.parametrize("deep", [[], ["--deep"]], ids=["files", "entries"])
def test_what_was_written_is_sound(shown: Shown, deep: list[str]) -> None:
    sound = "".join(f"checkpoint {number} is undamaged\n" for number in (1, 2, 3))
    assert shown("verify", "orders", *deep) == (0, sound, "")
    assert json.loads(shown("verify", "orders", "--json")[1]) == {"sound": [1, 2, 3], "problems": []}


def test_damage_is_named_with_what_can_still_be_read(shown: Shown, root: Path) -> None:
    chunk = _newest_chunk(root)
    (root / chunk).write_bytes(b"x")
    (root / metadata_name(RUN, CheckpointId(1))).unlink()

    code, out, _ = shown("verify", "orders")

    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "checkpoint 1 is damaged; none of it can be read"
    assert lines[2] == "checkpoint 2 is undamaged"
    assert lines[3] == "checkpoint 3 is damaged; still readable: payments, rules"
    assert f"accounts: state file {chunk} is damaged" in lines[4]
    assert json.loads(shown("verify", "orders", "--at", "3", "--json")[1])["problems"][0]["file"] == chunk
    code, _, errors = shown("show", "orders", "ann")
    assert (code, f"{chunk} is damaged" in errors) == (1, True)
    listed = json.loads(shown("list", "orders", "--json")[1])
    assert "does not exist" in listed[0]["damage"]
    assert "damaged" in shown("list")[1]


def test_a_damaged_list_of_an_operator_is_named(shown: Shown, root: Path) -> None:
    pipeline = Pipeline(LocalStorage(root), PipelineId("orders"), RUN, ManualClock())
    (lists,) = pipeline.archive.load(Retained(RUN, CheckpointId(3))).operators[2].lists
    (file,) = lists[0].files
    (root / file).unlink()

    code, out, _ = shown("verify", "orders", "--at", "3")

    first_line, second_line = out.splitlines()
    assert code == 1
    assert first_line == "checkpoint 3 is damaged; still readable: payments, accounts"
    assert second_line.startswith("  rules: ")
    assert file in second_line


def test_nothing_of_the_storage_changes(shown: Shown, root: Path, tmp_path: Path) -> None:
    def files() -> dict[str, Any]:
        return {path.as_posix(): path.stat().st_mtime_ns for path in root.rglob("*")}

    before = files()
    for command in (
        ["list"],
        ["show", "orders", "ann"],
        ["diff", "orders", "1", "3"],
        ["verify", "orders", "--deep"],
    ):
        shown(*command)
    shown("export", "orders", str(tmp_path / "out"))

    assert files() == before


def _newest_chunk(root: Path) -> str:
    pipeline = Pipeline(LocalStorage(root), PipelineId("orders"), RUN, ManualClock())
    manifest = pipeline.archive.load(Retained(RUN, CheckpointId(3)))
    chunk = manifest.operators[1].keyed[0].segments[-1]
    assert isinstance(chunk, StoredChunk)
    return chunk.name


AUDITED = """
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state


class Account(KeyedProcessFunction):
    cents = state.Value(int, default=0)

    def process_element(self, value, ctx):
        self.cents.update(self.cents.value() + value[1])


env = StreamExecutionEnvironment.get_execution_environment(
    {"execution.target": "inline", "pipeline.progress": "off", "state.log.granularity": "event"}
)
payments = env.from_collection([("ann", 500), ("bob", 700), ("ann", 20)]).uid("payments").set_parallelism(1)
payments.key_by(lambda payment: payment[0]).process(Account()).uid("accounts")
env.execute("audited")
"""


def test_with_the_program_the_record_that_made_a_change_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tidegate"])
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "job.py").write_text(AUDITED)
    assert main(["run", "job.py"]) == 0
    capsys.readouterr()

    assert main(["state", "history", "audited", "ann", "--program", "job.py", "--json"]) == 0

    rows = json.loads(capsys.readouterr().out)
    assert [(row["after"], row["made by"]["position"], row["record"]) for row in rows] == [
        (500, 0, ["ann", 500]),
        (520, 2, ["ann", 20]),
    ]
    assert main(["state", "history", "audited", "ann", "--program", "none.py"]) == 2
    assert "none.py is not a file; expected the program to run" in capsys.readouterr().err
