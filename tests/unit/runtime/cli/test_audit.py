"""`tidegate audit` as a user types it, on what a pipeline has written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.connectors.files import FileSink, JsonFormat, JsonLines, RecordFileSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.runtime.cli.main import main

Audit = Callable[..., int]
COUNT = 60


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Orders, and what a pipeline made of them: the declined ones are left out, the others have a total."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/orders.jsonl").write_text("".join(f'{{"id":{n},"cents":{n % 5}}}\n' for n in range(COUNT)))
    Path("rules.py").write_text('def paid(order):\n    return [order] if order["cents"] else []\n')
    settings = {
        "execution.target": "inline",
        "pipeline.progress": "off",
        "state.checkpoints.dir": str(tmp_path / "state"),
    }
    env = StreamExecutionEnvironment.get_execution_environment({**settings, "parallelism.default": "2"})
    orders = env.from_source(RecordFileSource("in", JsonFormat())).uid("orders")
    paid = orders.filter(lambda order: order["cents"] > 0).map(
        lambda order: {**order, "total": order["cents"]}
    )
    paid.sink_to(FileSink("out", JsonLines()))
    env.execute("totals")
    return tmp_path


PAID = ("audit", "in", "out?format=json", "--expect", "rules.py:paid", "--output-key", "id")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def a_file(place: Path) -> Path:
    return max((place / "out").rglob("*.jsonl"), key=lambda file: file.stat().st_size)


def test_a_sound_pipeline_is_proven(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *PAID)

    assert code == 0
    first, second, third = out.splitlines()
    assert first.startswith(f"input   in: {COUNT} records (in/orders.jsonl bytes 0 to ")
    assert second.startswith("output  out?format=json: 48 records (")
    assert third == "proven: all 48 expected records are in the output, each once, and no others"


def test_what_is_wrong_is_named_with_its_place(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = a_file(place)
    kept = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*kept[1:], kept[1], '{"id":1000,"cents":1,"total":1}\n']))
    lost = json.loads(kept[0])["id"]

    code, out, _ = run(capsys, *PAID)

    assert code == 1
    rows = [row.split() for row in out.splitlines()]
    assert "NOT PROVEN: of 48 expected records: 1 missing, 1 duplicate, 1 unexpected" in out.splitlines()
    assert rows[3] == ["what", "where", "record"]
    assert rows[4][0] == "missing"
    assert rows[4][1] == "in/orders.jsonl"
    assert rows[4][-1].startswith(f'{{"id":{lost},')
    assert rows[5][0] == "duplicate"
    assert rows[6][0] == "unexpected"
    assert rows[6][-1] == '{"id":1000,"cents":1,"total":1}'

    code, out, _ = run(capsys, *PAID, "--json", "--named", "1")
    told = json.loads(out)
    assert (code, told["proven"], told["expected"]) == (1, False, 48)
    assert {kind: told[kind] for kind in ("missing", "duplicate", "unexpected")} == dict.fromkeys(
        ("missing", "duplicate", "unexpected"), 1
    )
    assert [each["kind"] for each in told["findings"]] == ["missing", "duplicate", "unexpected"]
    assert told["input"]["parts"] == [
        {"name": "in/orders.jsonl", "byte": [0, (place / "in/orders.jsonl").stat().st_size]}
    ]


def test_a_key_leaves_out_what_a_pipeline_adds(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", "in", "out?format=json", "--key", "id,cents")

    assert code == 1
    assert "NOT PROVEN: of 60 expected records: 12 missing" in out

    code, out, _ = run(capsys, "audit", "out?format=json", "out?format=json", "--input-key", "id")
    assert code == 1
    assert "48 missing, 48 unexpected" in out


def test_the_newest_checkpoint_of_a_pipeline_says_what_must_be_there(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = ("--root", str(place / "state"))

    code, out, _ = run(capsys, *PAID, "--checkpoint", "totals", *root)

    assert code == 0
    assert out.splitlines()[0].endswith(" before checkpoint 1")
    (checkpoint,) = (place / "state").glob("*/chk-1")
    assert run(capsys, *PAID, "--checkpoint", str(checkpoint), "--source", "orders")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("audit", "in", "none"), "file 'none' does not exist; expected a file or a directory"),
        (("audit", "sea://in", "out"), "no connector is called 'sea.audit'; "),
        ((*PAID, "--named", "0"), "--named is 0; expected at least 1"),
        (
            (*PAID, "--key", "id"),
            "--key is for both sides; got --input-key or --output-key too; give either --key or the other two",
        ),
        ((*PAID, "--input-key", "id"), "--expect and --input-key exclude each other; got both"),
        ((*PAID, "--checkpoint", "sums"), "pipeline 'sums' has no settled checkpoint in "),
        ((*PAID, "--checkpoint", "./none"), "'./none' is not a checkpoint or savepoint"),
        (
            (*PAID, "--checkpoint", "totals", "--source", "x"),
            "checkpoint 1 has no source 'x'; name one with --source: ",
        ),
    ],
    ids=[
        "no file",
        "no connector",
        "no names",
        "two keys",
        "two rules",
        "no pipeline",
        "no checkpoint",
        "no source",
    ],
)
def test_bad_use_says_what_is_expected(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    root = ("--root", str(place / "state"))

    code, _, err = run(capsys, *arguments, *root)

    assert code == 2
    assert said in err
