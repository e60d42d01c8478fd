"""Write the modules that carry PyFlink's names from .ci/pyflink_modules.toml; `--check` fails if one is out of date.

A module re-exports names from the modules that define them, in a form that type checkers follow. All of them are
below `tidegate/datastream`, `tidegate/common` and `tidegate/metrics`.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / ".ci" / "pyflink_modules.toml"
FOLDERS: Final = ("common", "datastream", "metrics")


def main() -> int:
    """Write the modules, or with `--check` compare them."""
    texts = dict(modules())
    known = {path for folder in FOLDERS for path in (ROOT / "tidegate" / folder).rglob("*.py")}
    stale = sorted(
        path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text
    )
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(texts[path], encoding="utf-8")
    elif stale:
        print(f"{stale[0].relative_to(ROOT)} differs from {TABLE.relative_to(ROOT)}; run make pyflink")
        return 1
    for path in sorted(known - texts.keys()):
        print(f"{path.relative_to(ROOT)} is not in {TABLE.relative_to(ROOT)}; add it there, or delete it")
    return 1 if known - texts.keys() else 0


def modules() -> Iterator[tuple[Path, str]]:
    """Each module with its text."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    packages = {name.rpartition(".")[0] for name in table} | set(FOLDERS)
    for name, entry in table.items():
        path = ROOT / "tidegate" / name.replace(".", "/")
        yield path / "__init__.py" if name in packages else path.with_suffix(".py"), text(entry)


def text(entry: dict[str, str | list[str]]) -> str:
    """The text of a module as the formatter leaves it."""
    homes = {home: names for home, names in entry.items() if home != "about" and isinstance(names, list)}
    about = str(entry["about"])
    lines = [f'"""{about}"""' if "\n" not in about else f'"""{about.rstrip()}\n"""', ""]
    for home, names in homes.items():
        parts = (name.rpartition("=")[::2] for name in names)
        listed = ", ".join(f"{real} as {shown or real}" for shown, real in parts)
        lines.append(f"from {home} import {listed}")
    public = sorted(name.partition("=")[0] for names in homes.values() for name in names)
    lines += ["", f"__all__ = {public!r}"] if public else []
    return formatted("\n".join(lines) + "\n")


def formatted(code: str) -> str:
    """Sort imports and format."""
    for command in (["check", "--select", "I,RUF022", "--fix", "--quiet"], ["format", "--quiet"]):
        ruff = [str(ROOT / ".venv" / "bin" / "ruff"), *command, "--config", str(ROOT / "pyproject.toml")]
        done = subprocess.run(
            [*ruff, "--stdin-filename", str(ROOT / "tidegate" / "module.py"), "-"],
            input=code,
            capture_output=True,
            text=True,
            check=True,
        )
        code = done.stdout
    return code


if __name__ == "__main__":
    raise SystemExit(main())
