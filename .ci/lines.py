"""Print the lines of code per package: code, docstrings and comments, unit tests, Markdown. Information, not a target.

Blank lines are not counted. Tests that mirror no package, such as `tests/crash`, have rows of their own.
"""

from __future__ import annotations

import ast
import io
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ("code", "comments", "tests", "markdown")
SPLIT = ("runtime", "connectors", "backends", "tests")
"""Folders that have a row for each of their folders."""


def main() -> None:
    """Count the files that git tracks or would track, and print a row per package."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    rows: dict[str, Counter[str]] = {}
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            package, column = place(Path(name))
            rows.setdefault(package, Counter()).update(counted(ROOT / name, column))
    total = sum(rows.values(), Counter())
    width = max(map(len, rows))
    print(f"{'package':{width}}" + "".join(f"{column:>10}" for column in COLUMNS))
    for package, counts in [*sorted(rows.items()), ("total", total)]:
        print(f"{package:{width}}" + "".join(f"{counts[column]:>10,}" for column in COLUMNS))


def place(path: Path) -> tuple[str, str]:
    """The package of a file, and the column of its code."""
    folders = path.parts[:-1]
    tests = folders[:1] == ("tests",)
    if folders[:2] == ("tests", "unit"):
        folders = folders[2:]
    depth = 2 if folders[:1] and folders[0] in SPLIT else 1
    return "/".join(folders[:depth]) or "(root)", "tests" if tests else "code"


def counted(path: Path, column: str) -> Counter[str]:
    """The lines of a file by column."""
    text = path.read_text(encoding="utf-8")
    filled = {number for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    if path.suffix == ".md":
        return Counter({"markdown": len(filled)})
    comments = filled & (docstrings(text) | comment_lines(text))
    return Counter({column: len(filled - comments), "comments": 0 if column == "tests" else len(comments)})


def docstrings(text: str) -> set[int]:
    """The lines of all strings that are statements."""
    return {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def comment_lines(text: str) -> set[int]:
    """The lines that hold only a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#")
    }


if __name__ == "__main__":
    main()
