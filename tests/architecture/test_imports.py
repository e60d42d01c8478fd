"""Who may import what, beyond the layer contracts: quick start, a pure vocabulary, one door per vendor library."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HEAVY = ("pyspark", "confluent_kafka", "rocksdict", "pyarrow", "pandas")
FRONT_DOOR = {"tidegate", "tidegate.spark", "tidegate.state_reader", "tidegate.state_writer"}
IN_VOCABULARY = {"msgspec", "xxhash"}
ANYWHERE = {"msgspec", "xxhash", "cloudpickle"}
IN_TESTING = {"pytest", "hypothesis"}


def imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    return {node.module or ""} if node.level == 0 else {"."}


def imports(tree: ast.AST) -> set[str]:
    """Everything imported anywhere in a module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= imported(node)
    return found


def at_import_time(node: ast.AST) -> Iterator[str]:
    """What is loaded when the module is: not inside functions, not for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield from imported(child)
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield from at_import_time(other)
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_import_time(child)


def vendors(names: set[str]) -> set[str]:
    tops = {name.partition(".")[0] for name in names}
    return tops - sys.stdlib_module_names - {"tidegate"}


def loaded_by(statement: str, tmp_path: Path) -> set[str]:
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_tidegate_loads_no_heavy_library_and_no_room(tmp_path: Path) -> None:
    loaded = loaded_by("import tidegate", tmp_path)

    assert "tidegate" in loaded
    assert [name for name in HEAVY if name in loaded] == []
    assert [name for name in loaded if name.startswith(("tidegate.runtime", "tidegate.backends"))] == []


def test_a_program_starts_without_a_heavy_library(tmp_path: Path) -> None:
    loaded = loaded_by(
        "import tidegate.datastream, tidegate.connectors.files, tidegate.runtime.embedded.jobmanager",
        tmp_path,
    )

    assert [name for name in HEAVY if name in loaded] == []


def test_the_vocabulary_imports_only_itself_two_libraries_and_arrow_for_its_batches(
    trees: dict[str, ast.Module], modules: dict[str, Path], rooms: dict[str, Path]
) -> None:
    bottom = {name for name, path in modules.items() if path.parent == rooms["tidegate"]} - FRONT_DOOR
    strays = {}
    for name in bottom:
        names = imports(trees[name])
        above = {other for other in names if other.startswith("tidegate")} - bottom
        # Arrow's own modules import it in functions, which only holders of record batches call.
        allowed = IN_VOCABULARY | ({"pyarrow"} if name.startswith("tidegate.arrow_") else set())
        if found := (vendors(names) - allowed) | above:
            strays[name] = sorted(found)

    assert "tidegate.errors" in bottom
    assert strays == {}


def test_vendor_libraries_enter_through_one_door_per_folder(
    trees: dict[str, ast.Module], modules: dict[str, Path]
) -> None:
    strays = {}
    for name, tree in trees.items():
        allowed = set(ANYWHERE)
        if name.startswith("tidegate.testing"):
            allowed |= IN_TESTING
        if modules[name].name == "_arrow.py":
            allowed |= {"pyarrow"}
        found = vendors(set(at_import_time(tree))) - allowed
        if found and modules[name].name != "_client.py" and not name.startswith("tidegate.runtime.spark"):
            strays[name] = sorted(found)

    assert strays == {}


def test_rooms_import_each_other_by_their_full_name(trees: dict[str, ast.Module]) -> None:
    relative = [name for name, tree in trees.items() if "." in imports(tree)]
    bare = [
        name
        for name, tree in trees.items()
        if imports(tree) & {"backends", "connectors", "runtime", "twophase"}
    ]

    assert (relative, bare) == ([], [])


def test_package_files_never_import_star(trees: dict[str, ast.Module]) -> None:
    stars = [
        name
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]

    assert stars == []
