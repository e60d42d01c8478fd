"""Write the tables of docs/settings.md from the declarations of the options; `--check` fails if the page is out of date."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

from tidegate.components import components
from tidegate.options import declarations
from tidegate.runtime.options import JobOptions

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "settings.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"

_KINDS: Final = ("backend", "storage", "connector", "format", "executor")

Field = dataclasses.Field[Any]


def main() -> int:
    """Write the tables, or with `--check` compare them."""
    old = PAGE.read_text(encoding="utf-8")
    head, _, rest = old.partition(BEGIN)
    _, _, tail = rest.partition(END)
    new = f"{head}{BEGIN}{tables()}{END}{tail}"
    if "--check" not in sys.argv:
        PAGE.write_text(new, encoding="utf-8")
    elif new != old:
        print("docs/settings.md differs from the declarations of the options; run make settings")
        return 1
    return 0


def tables() -> str:
    """The options of the engine, then those of each component."""
    return "\n".join(_sections())


def _sections() -> Iterator[str]:
    owned = {key for each in components().values() for key in declarations(each.declared)}
    engine = [each for key, each in declarations(JobOptions).items() if key not in owned]
    yield _section("Every job", engine)
    order = sorted(components().values(), key=lambda each: (_KINDS.index(each.kind), each.name))
    for component in order:
        title = component.title[0].upper() + component.title[1:]
        yield _section(title, declarations(component.declared).values())


def _section(title: str, fields: Iterable[Field]) -> str:
    rows = "".join(_row(each) for each in fields)
    return f"### {title}\n\n| key | default | meaning |\n|---|---|---|\n{rows}"


def _row(field: Field) -> str:
    return f"| `{field.metadata['key']}` | {_default(field)} | {field.metadata['doc']} |\n"


def _default(field: Field) -> str:
    value = field.default
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, tuple):
        return ";".join(map(_text, value))
    unit = next(
        (unit for ending, unit in (("_ms", " ms"), ("_bytes", " bytes")) if field.name.endswith(ending)), ""
    )
    return f"{_text(value)}{unit}"


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
