"""List the public names of PyFlink's DataStream API, read from its installed sources: nothing of it is run.

    pip download --no-deps --dest /tmp/wheel apache-flink && unzip -qd /tmp/wheel/site /tmp/wheel/*.whl
    python .ci/pyflink_names.py /tmp/wheel/site tests/golden/pyflink

Two lists are written: every public name, and what each function takes. PyFlink is far too large to be a dependency of
the tests, so they compare with the lists.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef

PACKAGES = ("common", "datastream", "metrics")
BEYOND = ("pyflink.table",)
"""Packages that are only named, because programs for the DataStream API import them."""


def main(site_packages: Path, target: Path) -> None:
    """Write the version, then each module, class, function and method, sorted; and what they take."""
    (info,) = site_packages.glob("apache_flink-*.dist-info")
    head = f"# apache-flink {info.name.removeprefix('apache_flink-').removesuffix('.dist-info')}"
    root = site_packages / "pyflink"
    found = dict.fromkeys(BEYOND) | {
        name: taken
        for package in PACKAGES
        for path in (root / package).rglob("*.py")
        for name, taken in _of(root, path)
    }
    signatures = [f"{name}({taken})" for name, taken in sorted(found.items()) if taken is not None]
    for file, lines in (("names.txt", sorted(found)), ("signatures.txt", signatures)):
        (target / file).write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def _of(root: Path, path: Path) -> Iterator[tuple[str, str | None]]:
    parts = path.relative_to(root.parent).with_suffix("").parts
    if "tests" in parts or any(part.startswith("_") and part != "__init__" for part in parts):
        return
    module = ".".join(part for part in parts if part != "__init__")
    yield module, None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public = _exported(tree)
    for name in public or ():
        yield f"{module}.{name}", None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and _is_public(node.name, public):
            yield f"{module}.{node.name}", _made(node) if isinstance(node, ast.ClassDef) else _taken(node, 0)
            if isinstance(node, ast.ClassDef):
                yield from ((f"{module}.{node.name}.{child.name}", taken) for child, taken in _members(node))


def _members(node: ast.ClassDef) -> Iterator[tuple[Function | ast.ClassDef, str | None]]:
    for child in node.body:
        if isinstance(child, Function | ast.ClassDef) and not child.name.startswith("_"):
            yield child, None if isinstance(child, ast.ClassDef) else _taken(child, _bound(child))


def _made(node: ast.ClassDef) -> str | None:
    """What the constructor takes; None if it only wraps an object of Java's."""
    own = (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    constructor = next(own, None)
    if constructor is None or any(each.arg.startswith("j_") for each in constructor.args.args):
        return None
    return _taken(constructor, 1)


def _bound(function: Function) -> int:
    return int("staticmethod" not in {ast.unparse(each) for each in function.decorator_list})


def _taken(function: Function, bound: int) -> str:
    """The parameters behind the first `bound` ones: `=` behind those that may be left out."""
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    optional = set(names[len(names) - len(arguments.defaults) :])
    taken = [f"{name}=" if name in optional else name for name in names[bound:]]
    taken += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    taken += [f"{argument.arg}=" for argument in arguments.kwonlyargs]
    taken += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(taken)


def _is_public(name: str, exported: list[str] | None) -> bool:
    return name in exported if exported is not None else not name.startswith("_")


def _exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exported: list[str] = ast.literal_eval(node.value)
            return exported
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
