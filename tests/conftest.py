"""What holds for every test: profiles, no silent skips, seconds per folder, and a record of the acceptance examples.

What runs on worker processes runs on two of them, and with `--profile=long` on three as well; tests marked `long` run only
then.

A test that does not run proves nothing, so a skip or an expected failure counts as a failure. What each marked
test proved is written to `.cache/spec.json`, where `make coverage-spec` finds it, and what the clauses of the kits came
to for each connector to `.cache/clauses.json`, where `make guarantees` does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings

Profile = Literal["dev", "ci", "long"]

TESTS = Path(__file__).resolve().parent
SPARK_SETTINGS = TESTS / "integration" / "spark" / "conf"
RECORD = TESTS.parent / ".cache" / "spec.json"
KIT_RECORD = TESTS.parent / ".cache" / "clauses.json"
EXECUTORS = {"inline", "embedded", "spark"}
HYPOTHESIS_PROFILES: dict[Profile, str] = {"dev": "dev", "ci": "ci", "long": "nightly"}

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "nightly", max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

seconds_per_folder: dict[str, float] = defaultdict(float)
outcomes: dict[str, dict[str, Any]] = {}
clauses: dict[str, dict[str, bool]] = defaultdict(dict)
terminals: list[pytest.TerminalReporter] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--profile",
        choices=sorted(HYPOTHESIS_PROFILES),
        default="ci" if os.environ.get("CI") == "true" else "dev",
        help="how long properties and simulations search: dev, ci (same examples every time) or long",
    )


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So it is in the background of a shell; programs under test would inherit it and be deaf to Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without bytecode each of the hundreds of processes that tests start compiles every module, half of its CPU time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Java processes of tests live for seconds, of which the second compiler and its threads take half.
    if SPARK_SETTINGS.is_dir():  # not where a few tests are copied to
        os.environ["SPARK_CONF_DIR"] = str(SPARK_SETTINGS)
        os.environ["SPARK_LAUNCHER_OPTS"] = (SPARK_SETTINGS / "java-opts").read_text().strip()
    settings.load_profile(HYPOTHESIS_PROFILES[config.getoption("--profile")])


def pytest_sessionstart(session: pytest.Session) -> None:
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # processes that only run tests have none
        terminals.append(terminal)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that start worker processes, a second or more each time; leave what is long to long runs."""
    long = config.getoption("--profile") == "long"
    left: list[pytest.Item] = [item for item in items if item.get_closest_marker("long") and not long]
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "embedded" in callspec.id:
            item.add_marker(pytest.mark.processes)
            if not long and any(map(_has_three, callspec.params.values())):
                left.append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(autouse=True)
def own_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All programs of one test run are the same script: without its own state directory a test restores the state of another.

    The settings of a command that ran in this process do not reach the next test.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    yield
    if (options := sys.modules.get("tidegate.runtime.options")) is not None:
        options.set_command_line(options.Layer("command line", {}))


@pytest.fixture(scope="session")
def profile(pytestconfig: pytest.Config) -> Profile:
    """How long a test that searches may search."""
    chosen: Profile = pytestconfig.getoption("--profile")
    return chosen


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Starts Spark for all tests of this process; where it keeps what it shuffles."""
    from tidegate.runtime.spark.session import spark_context

    directory = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_DIRS", str(directory))
        with spark_context("local[2]", "tests"):
            yield directory


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    report.user_properties += [("spec", cited) for mark in item.iter_markers("spec") for cited in mark.args]
    if report.user_properties:
        report.user_properties += [("executor", executor) for executor in executors_of(item)]
    report.user_properties += [("connector", mark.args[0]) for mark in item.iter_markers("connector")]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a test where the session is, whichever process ran it, and name one that failed at once."""
    if report.failed and terminals:
        terminals[0].write_line(f"\nFAILED {report.nodeid} ({report.when}): {_reason(report)}", flush=True)
    seconds_per_folder[_folder(report.nodeid)] += report.duration
    ids = list(dict.fromkeys(value for name, value in report.user_properties if name == "spec"))
    if ids:
        executors = sorted({str(value) for name, value in report.user_properties if name == "executor"})
        entry = outcomes.setdefault(report.nodeid, {"ids": ids, "executors": executors, "passed": True})
        entry["passed"] = bool(entry["passed"] and report.passed)
    for name, connector in report.user_properties:
        if name == "connector":
            _, _, clause = report.nodeid.rpartition("::")
            clauses[str(connector)][clause] = clauses[str(connector)].get(clause, True) and report.passed


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if seconds_per_folder:
        terminalreporter.section("seconds per folder")
        for folder, seconds in sorted(seconds_per_folder.items()):
            terminalreporter.line(f"{seconds:9.1f}  {folder}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if outcomes and not hasattr(session.config, "workerinput"):
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(outcomes, indent=1, sort_keys=True), encoding="utf-8")
    if clauses and not hasattr(session.config, "workerinput"):
        KIT_RECORD.parent.mkdir(exist_ok=True)
        KIT_RECORD.write_text(json.dumps(clauses, indent=1, sort_keys=True), encoding="utf-8")


def executors_of(item: pytest.Item) -> set[str]:
    """Where a test runs its jobs, as its marks and its parameters say; nowhere, if it looks at a plan or a machine."""
    callspec = getattr(item, "callspec", None)
    words = set() if callspec is None else set(re.split(r"[^a-z]+", callspec.id))
    marked = {"spark": "spark", "processes": "embedded"}
    return words & EXECUTORS | {each for mark, each in marked.items() if item.get_closest_marker(mark)}


def _has_three(parameter: object) -> bool:
    """Whether a test's parameter is an executor with three worker processes."""
    return parameter == ("embedded", 3) or getattr(parameter, "processes", None) == 3


def _reason(report: pytest.TestReport) -> str:
    """The line that says why, for whoever sees no more than this."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(report.longrepr if crash is None else crash.message).strip().partition("\n")[0]


def _folder(nodeid: str) -> str:
    return "/".join(Path(nodeid.partition("::")[0]).parent.parts[:2])


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    expected_failure = hasattr(report, "wasxfail")
    if report.outcome == "skipped" or expected_failure:
        kind = "expected to fail" if expected_failure else "skipped"
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was {kind}; here every test runs and counts: {report.longrepr}"
        if expected_failure:
            del report.wasxfail
