"""Commands for jobs that run: found, asked, stopped and cancelled as from another process."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tidegate.clock import SystemClock
from tidegate.common import Types
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state
from tidegate.errors import JobCancelledError
from tidegate.runtime.cli import job_views
from tidegate.runtime.cli.main import main
from tidegate.runtime.client import JobClient
from tidegate.state_reader import StateReader

Told = Callable[..., tuple[int, str, str]]


class Seen(KeyedProcessFunction):
    count = state.Value(int, default=0)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield f"{value} {self.count.value()}"


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Runs a command; answers exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*command: str) -> tuple[int, str, str]:
        code = main(command)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


Start = Callable[..., JobClient]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts an endless job that has settled a checkpoint; whatever still runs afterwards is cancelled."""
    clients: list[JobClient] = []

    def run(**settings: Any) -> JobClient:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "inline",
                "state.checkpoints.dir": str(tmp_path / "state"),
                "execution.checkpointing.interval": "20 ms",
                "pipeline.progress": "off",
                "parallelism.default": 1,
                **settings,
            }
        )
        numbers = env.from_source(GeneratorSource(int, count=None, rate_per_second=1_000)).uid("numbers")
        seen = numbers.key_by(lambda n: n % 3, Types.LONG()).process(Seen()).uid("seen")
        seen.sink_to(FileSink(str(tmp_path / "out"))).uid("files")
        before = set((tmp_path / "out").glob("part-*"))
        clients.append(env.execute_async("numbers"))
        until(lambda: set((tmp_path / "out").glob("part-*")) > before, job=clients[-1])
        return clients[-1]

    yield run
    for client in clients:
        if not client.get_job_execution_result().done():
            client.cancel().result(timeout=30)


def test_jobs_are_listed_with_what_counts(tell: Told, start: Start) -> None:
    assert tell("list") == (
        0,
        "job  pipeline  state  on  for  records  settled  restarts\n",
        "",
    )
    run = start().get_job_id()

    code, table, _ = tell("list")
    _, listed, _ = tell("list", "--json")

    (row,) = table.splitlines()[1:]
    assert len(row) <= 80
    assert (code, row.split()[:4]) == (0, [run, "numbers", "running", "inline"])
    (job,) = json.loads(listed)
    assert (job["run"], job["name"], job["state"], job["restarts"]) == (run, "numbers", "running", 0)
    assert "token" not in job, "what opens the socket is nobody's business"


def test_a_job_tells_how_it_is_doing_by_operator(tell: Told, start: Start) -> None:
    run = start().get_job_id()
    until(lambda: "seen" in tell("info", "numbers")[1])

    code, text, _ = tell("info", run[:6])
    _, told, _ = tell("info", run, "--json")

    assert code == 0
    assert text.splitlines()[0].startswith(f"job                   {run} 'numbers', running for ")
    assert "open transactions" in text
    assert "last settled" in text
    (numbers, seen) = json.loads(told)["operators"].items()
    assert (numbers[0], seen[0], numbers[1]["subtasks"]) == ("numbers", "seen", 1)


def test_the_only_job_needs_no_name(tell: Told, start: Start) -> None:
    assert tell("info") == (
        2,
        "",
        "tidegate: this user runs no job on this machine; start one with tidegate run\n",
    )
    client = start()

    assert tell("info")[1].startswith(f"job                   {client.get_job_id()} 'numbers'")
    assert tell("checkpoints")[1].startswith("checkpoint")
    assert tell("stop")[0] == 0
    assert client.get_job_execution_result().result(timeout=30).state == "stopped"


def test_a_job_is_watched_until_it_ends(tell: Told, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start()

    class BetweenTwoLooks(SystemClock):
        def sleep(self, seconds: float) -> None:
            assert seconds == 1
            if not client.get_job_execution_result().done():
                client.stop().result(timeout=30)

    monkeypatch.setattr(job_views, "SYSTEM_CLOCK", BetweenTwoLooks())

    code, text, _ = tell("info", "numbers", "--watch")

    assert code == 0
    assert text.count("open transactions") >= 1


def test_a_job_serves_its_numbers_where_it_says(tell: Told, start: Start) -> None:
    start(**{"metrics.http.port": 0})
    job = json.loads(tell("info", "numbers", "--json")[1])

    with urllib.request.urlopen(f"{job['http']}/metrics") as answer:
        assert f'run="{job["run"]}",state="running"}} 1' in answer.read().decode()
    with urllib.request.urlopen(f"{job['http']}/status") as answer:
        assert json.load(answer)["pipeline"] == "numbers"


def test_everything_that_happens_is_a_line_in_the_event_log(tell: Told, start: Start, tmp_path: Path) -> None:
    run = start(**{"pipeline.event-log": str(tmp_path / "events.jsonl")}).get_job_id()
    tell("savepoint", "numbers", "--to", "backups")
    tell("stop", "numbers")

    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]

    assert {event["run"] for event in events} == {run}
    assert [event["text"] for event in events if event["what"] == "state"] == [
        "running",
        "stopping",
        "stopped",
    ]
    asked = [event["text"] for event in events if event["what"] == "asked"]
    assert (asked[0].startswith(f"savepoint {tmp_path}/backups/"), asked[1:]) == (True, ["stop"])
    first = [event for event in events if event.get("checkpoint") == 1]
    assert [event["what"] for event in first if event["what"] != "committed"] == [
        "triggered",
        "acked",
        "acked",
        "decided",
        "settled",
    ]
    assert [event["sinks"] for event in first if event["what"] == "committed"][-1:] in ([], [{}])
    assert {(event["uid"], event["subtask"]) for event in first if event["what"] == "acked"} == {
        ("numbers", 0),
        ("seen", 0),
    }


def test_checkpoints_of_a_job_are_shown_with_their_times(tell: Told, start: Start) -> None:
    start()
    until(lambda: " settled " in tell("checkpoints", "numbers")[1])

    code, listed, _ = tell("checkpoints", "numbers", "--json")

    assert code == 0
    settled = [each for each in json.loads(listed) if each["state"] == "settled"]
    assert all(each["settled_after_ms"] >= each["decided_after_ms"] >= 0 for each in settled)
    assert all(each["size"] > 0 and each["acked"] == 2 for each in settled)


def test_a_stopped_job_goes_on_from_its_last_checkpoint(tell: Told, start: Start) -> None:
    client = start()

    code, out, _ = tell("stop", "numbers")

    stopped = client.get_job_execution_result().result(timeout=0)
    assert (code, out) == (
        0,
        f"job {client.get_job_id()} is stopped; the next start resumes from its last checkpoint\n",
    )
    assert stopped.state == "stopped"
    again = start()
    tell("stop", "numbers")
    assert again.get_job_execution_result().result(timeout=30).resumed_from == stopped.checkpoint


def test_a_savepoint_is_taken_while_the_job_goes_on(tell: Told, start: Start, tmp_path: Path) -> None:
    client = start()

    code, out, _ = tell("savepoint", "numbers", "--to", "backups", "--json")

    told = json.loads(out)
    assert (code, told["job"], len(told["trigger"])) == (0, client.get_job_id(), 8)
    assert Path(told["savepoint"]).parent == tmp_path / "backups", (
        "of the command's directory, not of the job's"
    )
    with StateReader(told["savepoint"]) as reader:
        assert set(reader.table("seen", "count")["key"].to_pylist()) == {0, 1, 2}
    assert not client.get_job_execution_result().done()


@pytest.mark.parametrize("verb", ["stop", "cancel"])
def test_a_job_ends_with_a_savepoint_and_is_over_when_the_command_is(
    tell: Told, start: Start, tmp_path: Path, verb: str
) -> None:
    client = start(**{"state.savepoints.dir": str(tmp_path / "default")})

    code, out, _ = tell(verb, "numbers", "-s", "--native")

    (place,) = (tmp_path / "default").iterdir()
    assert (code, out.splitlines()[0]) == (0, f"savepoint {place}")
    ended = client.get_job_execution_result()
    if verb == "stop":
        assert ended.result(timeout=0).state == "stopped"
    else:
        with pytest.raises(JobCancelledError, match="job 'numbers' was cancelled after a savepoint"):
            ended.result(timeout=0)
    _, listed, _ = tell("pipelines", "list", "--root", str(tmp_path / "state"), "--json")
    assert [each["status"] for each in json.loads(listed)] == ["stopped" if verb == "stop" else "canceled"]


def test_a_cancelled_job_begins_anew(tell: Told, start: Start) -> None:
    client = start()

    code, out, _ = tell("cancel", "numbers")

    assert (code, out) == (0, f"job {client.get_job_id()} is cancelled; the next start has no state\n")
    with pytest.raises(JobCancelledError, match="job 'numbers' was cancelled"):
        client.get_job_execution_result().result(timeout=0)


def test_a_drained_job_has_fired_everything(tell: Told, start: Start) -> None:
    client = start()

    assert tell("stop", "numbers", "--drain")[0] == 0

    assert client.get_job_execution_result().result(timeout=0).state == "stopped"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["stop", "none"], "tidegate: this user runs no job 'none' on this machine; running jobs: none\n"),
        (
            ["stop", "numbers", "--to", "x"],
            "tidegate: --to and --native are options of a savepoint; got no -s; add -s, or leave them out\n",
        ),
        (["cancel", "numbers", "--native"], "tidegate: --to and --native are options of a savepoint"),
        (
            ["savepoint", "numbers"],
            "tidegate: a savepoint needs a directory; got no savepoint_directory; give one or set",
        ),
        (
            ["restart", "numbers"],
            "tidegate: a restart needs a job that was started by 'tidegate run'",
        ),
    ],
    ids=["no job", "no savepoint asked for", "no form needed", "no place", "nobody to restart"],
)
def test_what_cannot_be_done_is_bad_use_and_changes_nothing(
    tell: Told, start: Start, command: list[str], message: str
) -> None:
    client = start() if "none" not in command else None

    code, out, err = tell(*command)

    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert client is None or not client.get_job_execution_result().done()


def test_a_job_or_a_place_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["savepoint"])
    assert ended.value.code == 2
    assert "one of the arguments job --dispose is required" in capsys.readouterr().err


def test_a_savepoint_is_deleted_with_all_its_files(tell: Told, start: Start, tmp_path: Path) -> None:
    start()
    _, out, _ = tell("savepoint", "numbers", "--to", "backups", "--json")
    place = Path(json.loads(out)["savepoint"])
    files = [path for path in place.rglob("*") if path.is_file()]

    assert tell("savepoint", "--dispose", str(place)) == (0, f"{len(files)} files deleted\n", "")

    assert not place.exists()
    code, _, err = tell("savepoint", "--dispose", str(place))
    assert (code, err) == (
        2,
        f"tidegate: '{place}' is not a savepoint; expected a directory with a file _savepoint\n",
    )


def test_a_savepoint_that_became_a_pipelines_own_is_not_deleted(
    tell: Told, start: Start, tmp_path: Path
) -> None:
    start()
    _, out, _ = tell("stop", "numbers", "-s", "--native", "--to", str(tmp_path / "state" / "kept"), "--json")
    place = json.loads(out)["savepoint"]
    start(
        **{
            "pipeline.id": "heir",
            "execution.savepoint.path": place,
            "execution.savepoint-restore-mode": "CLAIM",
            "state.checkpoints.num-retained": 1000,
        }
    )

    root = str(tmp_path / "state")

    code, _, err = tell("savepoint", "--dispose", place, "--root", root)

    assert code == 2
    assert f"savepoint '{place}' belongs to pipeline 'heir' now, which still refers to kept/" in err
    assert Path(place, "_savepoint").exists()


def test_a_forgotten_pipeline_leaves_no_checkpoint_and_begins_anew(
    tell: Told, start: Start, tmp_path: Path
) -> None:
    root = str(tmp_path / "state")
    client = start()

    code, _, err = tell("pipelines", "forget", "numbers", "--root", root)
    assert code == 2
    assert f"pipeline 'numbers': the pipeline is already running as run {client.get_job_id()}" in err
    tell("stop", "numbers")
    code, out, _ = tell("pipelines", "forget", "numbers", "--root", root)

    assert (code, out.split(":")[0]) == (0, "pipeline 'numbers' is forgotten")
    assert tell("pipelines", "list", "--root", root, "--json") == (0, "[]\n", "")
    assert list((tmp_path / "state").glob("*/chk-*/*")) == []
    again = start()
    tell("stop", "numbers")
    assert again.get_job_execution_result().result(timeout=30).resumed_from is None


def test_an_unknown_pipeline_is_not_forgotten(tell: Told, tmp_path: Path) -> None:
    code, _, err = tell("pipelines", "forget", "nobody", "--root", str(tmp_path))

    assert code == 2
    assert err == f"tidegate: file://{tmp_path} has no pipeline 'nobody'; known are none\n"
