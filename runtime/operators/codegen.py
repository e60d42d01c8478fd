"""Turns a chain of steps into the source of one Python loop.

Each record passes the whole chain before the next one starts, and the only calls per record are those into user
functions. The source is kept, so tracebacks show it and errors can be traced to the step whose line raised.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidegate.errors import InternalError
from tidegate.ids import OperatorUid
from tidegate.runtime.graph.transformations import Kind
from tidegate.serde import isolate

__all__ = ["Compiled", "Stage", "compile_stages"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a chain: what it is, who follows, and the outputs that take what it emits.

    A step of kind `pass` calls nothing. `isolated` says that emitted values may change later, so an output must keep a copy.
    """

    uid: OperatorUid
    number: int
    kind: Kind | Literal["pass"]
    children: tuple[Stage, ...] = ()
    outputs: tuple[int, ...] = ()
    isolated: bool = False


@dataclass(frozen=True, slots=True)
class Compiled:
    """The loop: `run(values, timestamps, keys)` answers a (values, timestamps) pair per output."""

    run: Callable[..., tuple[tuple[list[Any], list[int] | None], ...]]
    source: str
    filename: str
    lines: Mapping[int, OperatorUid]


@dataclass(slots=True)
class _Text:
    lines: list[str] = field(default_factory=list)
    owners: dict[int, OperatorUid] = field(default_factory=dict)

    def add(self, depth: int, text: str, owner: OperatorUid | None = None) -> None:
        self.lines.append("    " * depth + text)
        if owner is not None:
            self.owners[len(self.lines)] = owner


def compile_stages(
    name: str, head: Stage, outputs: int, names: Mapping[str, Any], *, timed: bool
) -> Compiled:
    """Compile the loop that feeds each record to `head` and all that follows, filling `outputs` outputs.

    `names` binds what the generated source calls: `f<number>` for user functions, `bind<number>` and `ctx<number>`
    for keyed ones.
    """
    text = _Text()
    keyed = head.kind == "process"
    text.add(0, "def run(values, timestamps, keys):")
    for output in range(outputs):
        text.add(1, f"out{output} = []; put{output} = out{output}.append")
        if timed:
            text.add(1, f"times{output} = []; stamp{output} = times{output}.append")
    columns = ["values"] + ["timestamps"] * timed + ["keys"] * keyed
    variables = ["v"] + ["t"] * timed + ["k"] * keyed
    source = columns[0] if len(columns) == 1 else f"zip({', '.join(columns)})"
    text.add(1, f"for {', '.join(variables)} in {source}:")
    _emit(text, head, "v", 2, timed)
    pairs = [f"(out{output}, {f'times{output}' if timed else None})" for output in range(outputs)]
    text.add(1, f"return ({' '.join(pair + ',' for pair in pairs)})")
    return _compile(f"<tidegate chain {name}{' timed' * timed}>", text, names)


def _compile(filename: str, text: _Text, names: Mapping[str, Any]) -> Compiled:
    source = "\n".join(text.lines) + "\n"
    scope: dict[str, Any] = {**names, "isolate": isolate}
    exec(compile(source, filename, "exec"), scope)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return Compiled(scope["run"], source, filename, text.owners)


def _emit(text: _Text, stage: Stage, value: str, depth: int, timed: bool) -> None:
    result = f"v{stage.number}"
    call = f"f{stage.number}({value})"
    match stage.kind:
        case "pass":
            result = value
        case "map":
            text.add(depth, f"{result} = {call}", stage.uid)
        case "filter":
            text.add(depth, f"if {call}:", stage.uid)
            result, depth = value, depth + 1
        case "flat_map":
            text.add(depth, f"for {result} in {call}:", stage.uid)
            depth += 1
        case "process":
            text.add(depth, f"bind{stage.number}(k)")
            text.add(depth, f"ctx{stage.number}.stamp = {'t' if timed else None}")
            text.add(depth, f"results = f{stage.number}({value}, ctx{stage.number})", stage.uid)
            text.add(depth, f"for {result} in results if results is not None else ():", stage.uid)
            depth += 1
        case kind:
            raise InternalError(f"no code is known for a step of kind {kind!r}")
    _deliver(text, stage, result, depth, timed)


def _deliver(text: _Text, stage: Stage, value: str, depth: int, timed: bool) -> None:
    for output in stage.outputs:
        text.add(depth, f"put{output}(isolate({value}))" if stage.isolated else f"put{output}({value})")
        if timed:
            text.add(depth, f"stamp{output}(t)")
    for child in stage.children:
        _emit(text, child, value, depth, timed)
    if not stage.outputs and not stage.children:
        text.add(depth, "pass")
