"""Code stays small enough to read: budgets per top-level folder, and few, reasoned exceptions.

A module's length counts lines outside docstrings, a function's likewise. `__init__.py` files only export and have a
limit of their own, so that they do not make the median look better than it is.
"""

from __future__ import annotations

import ast
import statistics
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDERS = (
    "tidegate",
    "backends",
    "twophase",
    "connectors",
    "cdc",
    "runtime",
    "tests",
    "benchmarks",
    "examples",
)
EXCLUDED = ("benchmarks/baselines/", "tests/golden/pyflink/programs/")

MODULE_MEDIAN, MODULE_P90, MODULE_CAP = 150, 300, 500
FUNCTION_P90, FUNCTION_CAP = 25, 50
PUBLIC_METHODS_CAP = 12
EXPORTS_CAP = 40
EXCEPTIONS_CAP = 10

# An exception names what exceeds the cap and why it may.
LONG_MODULES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
WIDE_CLASSES: dict[str, str] = {
    "backends/keyed/store.py:KeyedStore": "all that operators ask of keyed state: rows, namespaces, cuts, the end of a key",
    "runtime/checkpoint/pipeline.py:Pipeline": "all that the owner of a pipeline does to its record, under one lock",
    "runtime/embedded/worker_group.py:WorkerGroup": "what a region's workers are told: their deployment, messages, the lease, the end",
    "runtime/operators/context.py:OperatorContext": "carries PyFlink's RuntimeContext: a method for each kind of state",
    "runtime/operators/stamp.py:Stamp": "an operator's methods, and what a reader that knows its splits tells it",
}
LONG_EXPORTS: dict[str, str] = {
    "connectors/base/__init__.py": "what authors of sources and of sinks of every kind begin with",
    "connectors/files/__init__.py": "formats to read and formats to write, and when files of a sink end and where they are",
    "connectors/kafka/__init__.py": "a source and a sink with all the names PyFlink has for them",
    "tidegate/testing/__init__.py": "all suites of the kit, and what tests of a user's own program begin with",
    "tidegate/common/__init__.py": "PyFlink programs import all of these names from `pyflink.common`",
    "tidegate/datastream/__init__.py": "PyFlink programs import all of these names from `pyflink.datastream`",
    "tidegate/__init__.py": "what a first program needs, for people and again for type checkers",
}

# Classes whose width is given: they carry the API of the PyFlink class of the same name.
PYFLINK_CLASSES = frozenset(
    {"CheckpointConfig", "Configuration", "CsvSchemaBuilder", "DataStream", "DataTypes", "ExecutionConfig"}
    | {
        "KafkaSourceBuilder",
        "PostgresSourceBuilder",
        "StateTtlConfigBuilder",
        "StreamExecutionEnvironment",
        "Types",
        "_Windowed",
    }
)

FRAMEWORK_DECORATORS = {"rule", "initialize", "invariant", "fixture"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Measured:
    """Sizes by name: modules by path, functions and classes by `path:name`."""

    modules: dict[str, int]
    functions: dict[str, int]
    classes: dict[str, int]
    exports: dict[str, int]


def docstring_lines(node: ast.AST) -> int:
    match node:
        case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            if node.body and ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                return (first.end_lineno or first.lineno) - first.lineno + 1
    return 0


def module_lines(text: str, tree: ast.Module) -> int:
    return len(text.splitlines()) - sum(docstring_lines(node) for node in ast.walk(tree))


def function_lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring_lines(function)


def called_by_a_framework(function: Function) -> bool:
    """Clauses of a conformance suite, steps of a Hypothesis machine and fixtures are run, never called by a reader."""
    names = {
        ast.unparse(decorator).partition("(")[0].rpartition(".")[2] for decorator in function.decorator_list
    }
    return function.name.startswith("test_") or not names.isdisjoint(FRAMEWORK_DECORATORS)


def public_methods(node: ast.ClassDef) -> int:
    """How many names a caller has to know."""
    functions = [child for child in node.body if isinstance(child, Function)]
    return len(
        {each.name for each in functions if not (each.name.startswith("_") or called_by_a_framework(each))}
    )


def measure(root: Path, folder: str) -> Measured:
    result = Measured({}, {}, {}, {})
    for path in sorted((root / folder).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(EXCLUDED):
            continue
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        (result.exports if path.name == "__init__.py" else result.modules)[name] = module_lines(text, tree)
        for node in ast.walk(tree):
            if isinstance(node, Function):
                key = f"{name}:{node.name}"
                result.functions[key] = max(function_lines(node), result.functions.get(key, 0))
            elif isinstance(node, ast.ClassDef):
                result.classes[f"{name}:{node.name}"] = public_methods(node)
    return result


def percentile(values: list[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def measured(root: Path, folder: str) -> Measured:
    return measure(root, folder)


def test_modules_are_short(folder: str, measured: Measured) -> None:
    sizes = list(measured.modules.values())
    too_long = {name: size for name, size in measured.modules.items() if size > MODULE_CAP}

    assert too_long.keys() <= LONG_MODULES.keys(), (
        f"modules over {MODULE_CAP} lines, split by noun: {too_long}"
    )
    if sizes:
        assert statistics.median(sizes) <= MODULE_MEDIAN, f"median of {folder}"
        assert percentile(sizes, 0.9) <= MODULE_P90, f"90th percentile of {folder}"


def test_functions_are_short(folder: str, measured: Measured) -> None:
    sizes = list(measured.functions.values())
    too_long = {name: size for name, size in measured.functions.items() if size > FUNCTION_CAP}

    assert too_long.keys() <= LONG_FUNCTIONS.keys(), f"functions over {FUNCTION_CAP} lines: {too_long}"
    if sizes:
        assert percentile(sizes, 0.9) <= FUNCTION_P90, f"90th percentile of {folder}"


def test_classes_have_few_public_methods(measured: Measured) -> None:
    too_wide = {
        name: count
        for name, count in measured.classes.items()
        if count > PUBLIC_METHODS_CAP and name.rpartition(":")[2] not in PYFLINK_CLASSES
    }

    assert too_wide.keys() <= WIDE_CLASSES.keys(), f"classes over {PUBLIC_METHODS_CAP} methods: {too_wide}"


def test_package_files_only_export(measured: Measured) -> None:
    too_long = {name: size for name, size in measured.exports.items() if size > EXPORTS_CAP}

    assert too_long.keys() <= LONG_EXPORTS.keys(), f"__init__.py over {EXPORTS_CAP} lines: {too_long}"


@pytest.mark.parametrize(
    "table",
    [LONG_MODULES, LONG_FUNCTIONS, WIDE_CLASSES, LONG_EXPORTS],
    ids=["modules", "functions", "classes", "exports"],
)
def test_exceptions_are_few_and_give_a_reason(table: dict[str, str]) -> None:
    assert len(table) <= EXCEPTIONS_CAP
    assert [name for name, reason in table.items() if len(reason) < 20] == []


def test_exceptions_are_still_needed(root: Path) -> None:
    everything = [measure(root, folder) for folder in FOLDERS]
    idle = [
        name
        for table, cap, sizes in (
            (LONG_MODULES, MODULE_CAP, [each.modules for each in everything]),
            (LONG_FUNCTIONS, FUNCTION_CAP, [each.functions for each in everything]),
            (WIDE_CLASSES, PUBLIC_METHODS_CAP, [each.classes for each in everything]),
            (LONG_EXPORTS, EXPORTS_CAP, [each.exports for each in everything]),
        )
        for name in table
        if not any(measured.get(name, 0) > cap for measured in sizes)
    ]

    wide = {
        name.rpartition(":")[2]
        for measured in everything
        for name, count in measured.classes.items()
        if count > PUBLIC_METHODS_CAP
    }

    assert idle == [], "remove these from the exception lists"
    assert wide >= PYFLINK_CLASSES


def test_the_count_leaves_docstrings_out() -> None:
    text = '"""One\ntwo."""\n\n\ndef f() -> int:\n    """Doc."""\n    return 1\n'
    tree = ast.parse(text)
    function = tree.body[1]

    assert module_lines(text, tree) == 4
    assert isinstance(function, ast.FunctionDef)
    assert function_lines(function) == 2


def test_steps_of_a_machine_are_not_methods_to_know() -> None:
    text = "class M:\n @rule(n=1)\n def step(self): ...\n def test_it(self): ...\n def known(self): ...\n def _own(self): ...\n"
    (machine,) = ast.parse(text).body

    assert isinstance(machine, ast.ClassDef)
    assert public_methods(machine) == 1
