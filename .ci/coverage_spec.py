"""Say which acceptance examples have a passing test, or print what the tests behind one of them assert.

See docs/acceptance.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "tests" / "spec" / "examples.toml"
RECORD = ROOT / ".cache" / "spec.json"
EXECUTORS = ("inline", "embedded", "spark")


@dataclass(frozen=True)
class Outcome:
    """What one test came to, and on which executors it ran."""

    passed: bool
    executors: frozenset[str]


Results = dict[str, dict[str, Outcome]]


def main(argv: list[str] | None = None) -> int:
    """Run the marked tests unless told not to, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--show", metavar="ID", help="print the asserts in the tests of one id, such as 002/AX-08"
    )
    parser.add_argument("--last", action="store_true", help="report the last run instead of running tests")
    options = parser.parse_args(argv)
    listed = tomllib.loads(EXAMPLES.read_text(encoding="utf-8"))
    if options.show:
        return show(options.show, {**listed["examples"], **listed["items"]})
    if not options.last:
        RECORD.unlink(missing_ok=True)
        subprocess.run([sys.executable, "-P", "-m", "pytest", "-q", "-m", "spec"], cwd=ROOT, check=False)
    results = read_record()
    report(listed["examples"], results)
    report(listed["items"], results)
    missing = [] if options.last else not_on_spark(listed["spark"]["examples"], results)
    for cited in missing:
        print(f"{cited} has no test that ran on Spark; expected one, because it is listed under [spark]")
    failed = [cited for cited, tests in results.items() if not all_passed(tests)]
    return 1 if failed or missing else 0


def read_record() -> Results:
    """Per id, the tests that cite it and whether each passed."""
    results: Results = defaultdict(dict)
    if RECORD.exists():
        for nodeid, outcome in json.loads(RECORD.read_text(encoding="utf-8")).items():
            for cited in outcome["ids"]:
                results[cited][nodeid] = Outcome(outcome["passed"], frozenset(outcome["executors"]))
    return results


def report(sentences: dict[str, str], results: Results) -> None:
    """One line per id, then totals per group."""
    if not sentences:
        return
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for cited, sentence in sentences.items():
        tests = results.get(cited, {})
        state = "-" if not tests else "passed" if all_passed(tests) else "FAILED"
        print(f"{cited:12} {state:7} {len(tests):3}  {executors(tests):16}  {sentence}")
        counts = totals[cited[:3]]
        counts[0] += state == "passed"
        counts[1] += 1
    for group, (passed, of) in sorted(totals.items()):
        print(f"{group}: {passed} of {of}")
    print(f"total: {sum(passed for passed, _ in totals.values())} of {len(sentences)} have passing tests\n")


def all_passed(tests: Mapping[str, Outcome]) -> bool:
    """Whether none of the tests of an id failed."""
    return all(outcome.passed for outcome in tests.values())


def executors(tests: Mapping[str, Outcome]) -> str:
    """The executors on which tests ran; none for what runs on no executor, such as a plan."""
    ran_on = frozenset().union(*(outcome.executors for outcome in tests.values()))
    return " ".join(executor for executor in EXECUTORS if executor in ran_on)


def not_on_spark(expected: Iterable[str], results: Results) -> list[str]:
    """The ids that are to be shown on Spark, too, and were shown elsewhere only."""
    return [cited for cited in expected if cited in results and "spark" not in executors(results[cited])]


def show(cited: str, sentences: dict[str, str]) -> int:
    """Print the sentence of an id and every assertion in the tests that cite it."""
    if cited not in sentences:
        print(f"unknown id {cited!r}; expected one of {EXAMPLES.relative_to(ROOT)}", file=sys.stderr)
        return 2
    print(f"{cited}: {sentences[cited]}")
    found = False
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for function in citing(ast.parse(text), cited):
            found = True
            print(f"\n{path.relative_to(ROOT)}:{function.lineno} {function.name}")
            for node in assertions(function):
                print(f"    {ast.get_source_segment(text, node)}")
    if not found:
        print("no test cites this id yet")
    return 0


def citing(
    node: ast.AST, cited: str, inherited: bool = False
) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The test functions under `node` that carry the mark themselves, by a parameter, or through their class."""
    functions = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            marked = inherited or any(cited in marks(decorator) for decorator in child.decorator_list)
            if isinstance(child, ast.ClassDef):
                functions += citing(child, cited, marked)
            elif marked and child.name.startswith("test_"):
                functions.append(child)
    return functions


def marks(node: ast.AST) -> set[str]:
    """Every id given to `pytest.mark.spec(...)` below `node`."""
    return {
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "spec"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def assertions(function: ast.AST) -> list[ast.Assert | ast.Call]:
    """`assert` statements and `pytest.raises(...)` calls in the order they stand."""
    found: list[ast.Assert | ast.Call] = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assert)
        or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "raises"
        )
    ]
    return sorted(found, key=lambda node: node.lineno)


if __name__ == "__main__":
    sys.exit(main())
