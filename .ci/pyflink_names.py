"""List the public names of PyFlink's DataStream API, read from its installed sources: nothing of it is run.

    uv venv /tmp/pyflink && uv pip install --python /tmp/pyflink/bin/python --no-deps apache-flink
    python .ci/pyflink_names.py /tmp/pyflink/lib/python3.11/site-packages > tests/golden/pyflink/names.txt

PyFlink is far too large to be a dependency of the tests, so they compare with the list.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("common", "datastream", "metrics")


def main(site_packages: Path) -> None:
    """Print the version, then each module, class, function and method, sorted."""
    (info,) = site_packages.glob("apache_flink-*.dist-info")
    print(f"# apache-flink {info.name.removeprefix('apache_flink-').removesuffix('.dist-info')}")
    root = site_packages / "pyflink"
    names = {
        name for package in PACKAGES for path in (root / package).rglob("*.py") for name in _of(root, path)
    }
    print("\n".join(sorted(names)))


def _of(root: Path, path: Path) -> Iterator[str]:
    parts = path.relative_to(root.parent).with_suffix("").parts
    if "tests" in parts or any(part.startswith("_") and part != "__init__" for part in parts):
        return
    module = ".".join(part for part in parts if part != "__init__")
    yield module
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public = _exported(tree)
    for name in public or ():
        yield f"{module}.{name}"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and _is_public(node.name, public):
            yield f"{module}.{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from (f"{module}.{node.name}.{name}" for name in _methods(node))


def _methods(node: ast.ClassDef) -> Iterator[str]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and not child.name.startswith("_"):
            yield child.name


def _is_public(name: str, exported: list[str] | None) -> bool:
    return name in exported if exported is not None else not name.startswith("_")


def _exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exported: list[str] = ast.literal_eval(node.value)
            return exported
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
