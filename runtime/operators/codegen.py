"""Turns a chain of steps into the source of one Python loop.

Each record passes the whole chain before the next one starts, and the only calls per record are those into user
functions. The source is kept, so tracebacks show it and errors can be traced to the step whose line raised.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

from tidegate.ids import OperatorUid
from tidegate.isolation import ATOMS, isolate
from tidegate.runtime.operators.operator import Call
from tidegate.runtime.operators.rows import Declared, Shaper
from tidegate.runtime.stream.results import may_return_text, refuse_text
from tidegate.runtime.stream.tags import OutputTag
from tidegate.types import TypeInformation

__all__ = ["Compiled", "Encoder", "Stage", "compile_stages"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a chain: how it is called, who follows, and the outputs that take what it emits.

    `isolated` says that emitted values may change later, so an output must keep a copy. `sides` are what follows
    its side outputs, each a stage that calls nothing. `shape` gives what it emits its declared shape; `typed` is what
    its function says its results are. Values of the class `settled` have their shape already.
    """

    uid: OperatorUid
    number: int
    call: Call | None
    children: tuple[Stage, ...] = ()
    outputs: tuple[int, ...] = ()
    sides: tuple[tuple[OutputTag, Stage], ...] = ()
    isolated: bool = False
    shape: Shaper | None = None
    settled: type[Any] | None = None
    typed: TypeInformation | None = None

    def walk(self) -> Iterator[Stage]:
        """This stage and all that follow."""
        yield self
        for stage in (*self.children, *(side for _, side in self.sides)):
            yield from stage.walk()


@dataclass(frozen=True, slots=True)
class Encoder:
    """What an output takes in place of each record, and whose it is."""

    uid: OperatorUid
    encode: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """The loop: `run(values, timestamps, rows)` answers a (values, timestamps) pair for each of `outputs`.

    It stops behind a record that makes `moved` of one of `cuts` true; given iterators it goes on from there. The
    results of the stages numbered in `checks` are looked at on their way.
    """

    run: Callable[..., tuple[tuple[list[Any], list[int] | None], ...]]
    outputs: tuple[int, ...]
    source: str
    filename: str
    lines: Mapping[int, OperatorUid]
    cuts: tuple[Any, ...] = ()
    checks: Mapping[int, Declared] = field(default_factory=dict)


@dataclass(slots=True)
class _Loop:
    """Source under construction; `before` runs once a batch, `timed` holds the outputs that get a time with each value."""

    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    owners: dict[int, OperatorUid] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    checks: Mapping[int, Declared] = field(default_factory=dict)
    encoders: Mapping[int, Encoder] = field(default_factory=dict)
    timed: set[int] = field(default_factory=set)

    def add(self, depth: int, text: str, owner: OperatorUid | None = None) -> None:
        self.lines.append("    " * depth + text)
        if owner is not None:
            self.owners[len(self.lines)] = owner

    def name(self, text: str, value: Any) -> str:
        self.names[text] = value
        return text


def compile_stages(
    name: str,
    head: Stage,
    *,
    timed: bool,
    checks: Mapping[int, Declared] | None = None,
    encoders: Mapping[int, Encoder] | None = None,
) -> Compiled:
    """Compile the loop that feeds each record to `head` and all that follows.

    Args:
        name: of the loop, for tracebacks.
        head: the first step.
        timed: whether records have timestamps.
        checks: what looks at results, by number of the stage.
        encoders: what encodes records, by the output that takes them encoded.
    """
    loop = _Loop(checks=checks or {}, encoders=encoders or {})
    filename = f"<tidegate chain {name}{' timed' * timed}>"
    outputs = tuple(sorted({output for stage in head.walk() for output in stage.outputs}))
    if head.call is None and not head.children and not (head.isolated or loop.encoders) and len(outputs) == 1:
        loop.lines = [f"    return ((values, {'timestamps' if timed else None}),)"]
        return _compile(filename, loop, outputs)
    keyed = head.call is not None and head.call.bind is not None
    columns = ["values"] + ["timestamps"] * timed + ["rows"] * keyed
    variables = ["v"] + ["t"] * timed + ["row"] * keyed
    source = columns[0] if len(columns) == 1 else f"zip({', '.join(columns)})"
    loop.before = [f"    out{output} = []; times{output} = []" for output in outputs]
    loop.add(1, f"for {', '.join(variables)} in {source}:")
    _emit(loop, head, "v", 2, "t" if timed else None)
    cuts = {stage.number: stage.call.cut for stage in head.walk() if stage.call and stage.call.cut}
    for number, cut in cuts.items():
        loop.add(2, f"if {loop.name(f'cut{number}', cut)}.moved: break")
    pairs = [f"(out{output}, {f'times{output}' if output in loop.timed else None})," for output in outputs]
    loop.add(1, f"return ({' '.join(pairs)})")
    return _compile(filename, loop, outputs, tuple(cuts.values()))


@lru_cache(maxsize=256)
def _code(source: str, filename: str) -> CodeType:
    """The code of a loop; where a process opens the same program again and again, it is compiled once."""
    return compile(source, filename, "exec")


def _compile(filename: str, loop: _Loop, outputs: tuple[int, ...], cuts: tuple[Any, ...] = ()) -> Compiled:
    head = ["def run(values, timestamps, rows):", *loop.before]
    source = "\n".join([*head, *loop.lines]) + "\n"
    scope: dict[str, Any] = {
        **loop.names,
        "ATOMS": ATOMS,
        "isolate": isolate,
        "refuse_text": refuse_text,
        "OutputTag": OutputTag,
        "UNSET": object(),
    }
    exec(_code(source, filename), scope)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    owners = {len(head) + line: owner for line, owner in loop.owners.items()}
    return Compiled(scope["run"], outputs, source, filename, owners, cuts, loop.checks)


def _emit(loop: _Loop, stage: Stage, value: str, depth: int, time: str | None) -> None:
    result, call = f"v{stage.number}", stage.call
    if call is None:
        _deliver(loop, stage, value, depth, time)
        return
    if call.shape == "emitted":
        loop.add(depth, f"for {result} in ({value},):")
        _sort_out(loop, stage, depth, time)
        _deliver(loop, stage, result, depth + 1, time)
        return
    function = loop.name(f"f{stage.number}", call.function)
    behind = depth
    if call.shortcut is not None and (time is not None or call.shape == "map"):
        loop.names.update(call.shortcut.names)
        given = ["given = UNSET"] if call.shape == "map" else []
        for line in (*given, *call.shortcut.lines):
            loop.add(depth, line, stage.uid)
        if given:
            loop.add(depth, "if given is UNSET:")
            result, depth = "given", depth + 1
    if call.bind is not None:
        loop.add(depth, f"{loop.name(f'cursor{stage.number}', call.bind)}.row = row")
    match call.shape:
        case "map":
            loop.add(depth, f"{result} = {function}({value})", stage.uid)
            depth = behind
        case "filter":
            loop.add(depth, f"if {function}({value}):", stage.uid)
            result, depth = value, depth + 1
        case "flat_map":
            loop.add(depth, f"results = {function}({value})", stage.uid)
            _refuse_text(loop, stage, call, depth)
            loop.add(depth, f"for {result} in results or ():", stage.uid)
            depth += 1
        case "stamp":
            # A name of its own: what runs beside this step still sees the time from before it.
            result, time = value, _stamp(loop, stage, call, f"{value}, {time}", depth)
        case "process":
            _process(loop, stage, call, value, depth, time)
            depth += 2
        case "emit":
            emitted = f"t{stage.number}"
            loop.add(depth, f"for {result}, {emitted} in {function}({value}, {time}):", stage.uid)
            time = emitted
            _sort_out(loop, stage, depth, time)
            depth += 1
    _deliver(loop, stage, result, depth, time)


def _stamp(loop: _Loop, stage: Stage, call: Call, given: str, depth: int) -> str:
    number, time = stage.number, f"t{stage.number}"
    if call.context is None:
        loop.add(depth, f"{time} = f{number}({given})", stage.uid)
        return time
    loop.before.append(
        f"    f{number}, newest{number} = {loop.name(f'stamp{number}', call.context)}.stamping()"
    )
    loop.add(depth, f"{time} = f{number}({given})", stage.uid)
    loop.add(depth, f"if {time} > newest{number}.newest: newest{number}.newest = {time}")
    return time


def _process(loop: _Loop, stage: Stage, call: Call, value: str, depth: int, time: str | None) -> None:
    number, result = stage.number, f"v{stage.number}"
    context = loop.name(f"ctx{number}", call.context)
    if time is None:
        loop.before.append(f"    {context}.stamp = None")
    else:
        loop.add(depth, f"{context}.stamp = {time}")
    loop.add(depth, f"results = f{number}({value}, {context})", stage.uid)
    _refuse_text(loop, stage, call, depth)
    loop.add(depth, "if results is not None:")
    loop.add(depth + 1, f"for {result} in results:", stage.uid)
    _sort_out(loop, stage, depth + 1, time)


def _refuse_text(loop: _Loop, stage: Stage, call: Call, depth: int) -> None:
    """Refuse a text in place of results, unless the function cannot return one."""
    if may_return_text(call.function):
        loop.add(depth, f"if type(results) is str: refuse_text(results, f{stage.number})", stage.uid)


def _sort_out(loop: _Loop, stage: Stage, depth: int, time: str | None) -> None:
    """Send results that carry a tag to their side output, or nowhere if nobody reads it."""
    number, result = stage.number, f"v{stage.number}"
    # Most results carry none, so the length, which takes a call, is asked last.
    tagged = f"type({result}) is tuple and {result} and type({result}[0]) is OutputTag and len({result}) == 2"
    loop.add(depth + 1, f"if {tagged}:")
    for place, (tag, side) in enumerate(stage.sides):
        loop.add(depth + 2, f"if {result}[0] == {loop.name(f'tag{number}_{place}', tag)}:")
        loop.add(depth + 3, f"s{number} = {result}[1]")
        _deliver(loop, side, f"s{number}", depth + 3, time)
    loop.add(depth + 2, "continue")


def _deliver(loop: _Loop, stage: Stage, value: str, depth: int, time: str | None) -> None:
    if stage.shape is not None:
        unless = f"if type({value}) is not {stage.settled.__name__}: " if stage.settled is not None else ""
        loop.add(depth, f"{unless}{value} = {loop.name(f'shape{stage.number}', stage.shape)}({value})")
    if stage.number in loop.checks:
        check = loop.name(f"check{stage.number}", loop.checks[stage.number])
        loop.add(depth, f"{check}({value})", stage.uid)
    for output in stage.outputs:
        encoder, kept = loop.encoders.get(output), value
        if encoder is not None:
            kept = f"{loop.name(f'encode{output}', encoder.encode)}({value})"
        elif stage.isolated:
            kept = f"{value} if type({value}) in ATOMS else isolate({value})"
        loop.add(depth, f"out{output}.append({kept})", encoder.uid if encoder is not None else None)
        if time is not None:
            loop.timed.add(output)
            loop.add(depth, f"times{output}.append({time})")
    for child in stage.children:
        _emit(loop, child, value, depth, time)
    if not stage.outputs and not stage.children:
        loop.add(depth, "pass")
