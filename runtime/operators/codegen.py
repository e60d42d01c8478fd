"""Generates the source of one Python loop for a chain of steps.

Each record passes the whole chain before the next one starts, and the only calls per record are those into user
functions. The source is kept, so tracebacks show it and errors can be traced to the step whose line raised.

Batches with a column of row kinds have a separate loop. In it a function gets rows with their kind, and its results
have the kind of the rows it returns. Steps that only read records, or compute them by expressions, keep the kind.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import CodeType
from typing import Any

from tidegate.changelog import RowKinds
from tidegate.elements import RowKind
from tidegate.ids import OperatorUid
from tidegate.isolation import ATOMS, isolate
from tidegate.row import Row, refuse_change, with_kind
from tidegate.runtime.operators.operator import Call, RowLookup
from tidegate.runtime.operators.rows import Declared, Shaper
from tidegate.runtime.stream.results import may_return_text, refuse_text
from tidegate.runtime.stream.tags import OutputTag
from tidegate.types import TypeInformation

__all__ = ["Compiled", "Encoder", "Stage", "compile_stages"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a chain: how it is called, the stages after it, and the outputs that its results go to.

    `isolated` says that emitted values may change later, so an output must keep a copy. `sides` are the stages after
    its side outputs, each a stage without a call. `shape` converts its results to their declared shape; `typed` is the
    type that its function declares. Values of the class `settled` have their shape already. `takes` are the row kinds
    that its input may have, and `rows` says whether what it emits may be rows. One that `copies` holds records beyond its
    call that others may change. Rows of keys that do not come with the records are found by `lookup`.
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
    takes: RowKinds = "any"
    rows: bool = True
    copies: bool = False
    lookup: RowLookup | None = None

    def walk(self) -> Iterator[Stage]:
        """This stage and all stages after it."""
        yield self
        for stage in (*self.children, *(side for _, side in self.sides)):
            yield from stage.walk()


@dataclass(frozen=True, slots=True)
class Encoder:
    """The expression that an output stores for each record, and its step."""

    uid: OperatorUid
    encode: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """The loop: `run(values, timestamps, rows)` returns a (values, timestamps) pair for each of `outputs`.

    That for batches with kinds takes them last. Where a step keeps kinds, they follow the timestamps of the output;
    those of outputs in `of_rows` are the ones that rows have. It stops after a record that makes `moved` of one of
    `cuts` true; called with iterators it continues from there. The results of the stages numbered in `checks` are looked at on
    their way. `parts` names what lines do besides calling the
    function of a step, such as an expression.
    """

    run: Callable[..., tuple[tuple[Any, ...], ...]]
    outputs: tuple[int, ...]
    source: str
    filename: str
    lines: Mapping[int, OperatorUid]
    cuts: tuple[Any, ...] = ()
    checks: Mapping[int, Declared] = field(default_factory=dict)
    of_rows: frozenset[int] = frozenset()
    parts: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Record:
    """The variables of a record, its time and its kind.

    Without a variable for its kind it is an insertion, unless it is `own`: then the row itself holds its kind. A record
    that is `parted` has only the variables of its columns.
    """

    value: str
    time: str | None
    kind: str | None = None
    own: bool = False
    parted: bool = False


@dataclass(slots=True)
class _Loop:
    """Source under construction; `before` runs once a batch, `timed` and `kinded` hold the outputs that get a time or a kind with each
    value, `of_rows` those whose rows have their kinds themselves.
    """

    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    owners: dict[int, OperatorUid] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    checks: Mapping[int, Declared] = field(default_factory=dict)
    encoders: Mapping[int, Encoder] = field(default_factory=dict)
    timed: set[int] = field(default_factory=set)
    kinded: set[int] = field(default_factory=set)
    of_rows: set[int] = field(default_factory=set)
    parts: dict[int, str] = field(default_factory=dict)

    def add(self, depth: int, text: str, owner: OperatorUid | None = None, part: str | None = None) -> None:
        self.lines.append("    " * depth + text)
        if owner is not None:
            self.owners[len(self.lines)] = owner
        if part is not None:
            self.parts[len(self.lines)] = part

    def name(self, text: str, value: Any) -> str:
        self.names[text] = value
        return text


def compile_stages(
    name: str,
    head: Stage,
    *,
    timed: bool,
    kinded: bool = False,
    emitted: bool = False,
    checks: Mapping[int, Declared] | None = None,
    encoders: Mapping[int, Encoder] | None = None,
) -> Compiled:
    """Compile the loop that passes each record through `head` and all stages after it.

    Args:
        name: of the loop, for tracebacks.
        head: the first step.
        timed: whether records have timestamps.
        kinded: whether records have row kinds.
        emitted: whether records are results of `head`, so that rows have their kinds themselves.
        checks: the check of results, by number of the stage.
        encoders: what encodes records, by the output that takes them encoded.
    """
    loop = _Loop(checks=checks or {}, encoders=encoders or {})
    filename = f"<tidegate chain {name}{' timed' * timed}{' with kinds' * kinded}>"
    outputs = tuple(sorted({output for stage in head.walk() for output in stage.outputs}))
    if head.call is None and not head.children and not (head.isolated or loop.encoders) and len(outputs) == 1:
        loop.lines = [
            f"    return ((values, {'timestamps' if timed else None}{', kinds' if kinded else ''}),)"
        ]
        loop.of_rows.update(outputs if head.rows and not kinded else ())
        return _compile(filename, loop, outputs, kinded)
    if len(outputs) == 1 and not timed and not kinded and not emitted and _comprehend(loop, head):
        return _compile(filename, loop, outputs, kinded)
    loop.before = [f"    out{output} = []; times{output} = []" for output in outputs]
    _emit(loop, head, _begin(loop, head, timed=timed, kinded=kinded, emitted=emitted), 2)
    cuts = {stage.number: stage.call.cut for stage in head.walk() if stage.call and stage.call.cut}
    for number, cut in cuts.items():
        loop.add(2, f"if {loop.name(f'cut{number}', cut)}.moved: break")
    loop.before += [f"    kinds{output} = []" for output in sorted(loop.kinded)]
    results = [
        f"(out{output}, {f'times{output}' if output in loop.timed else None}"
        f"{f', kinds{output}' if output in loop.kinded else ''}),"
        for output in outputs
    ]
    loop.add(1, f"return ({' '.join(results)})")
    return _compile(filename, loop, outputs, kinded, tuple(cuts.values()))


@lru_cache(maxsize=256)
def _code(source: str, filename: str) -> CodeType:
    """The code of a loop; cached, since a process may open the same program many times."""
    return compile(source, filename, "exec")


def _compile(
    filename: str, loop: _Loop, outputs: tuple[int, ...], kinded: bool, cuts: tuple[Any, ...] = ()
) -> Compiled:
    head = [f"def run(values, timestamps, rows{', kinds' if kinded else ''}):", *loop.before]
    source = "\n".join([*head, *loop.lines]) + "\n"
    scope: dict[str, Any] = {
        **loop.names,
        "ATOMS": ATOMS,
        "isolate": isolate,
        "refuse_text": refuse_text,
        "OutputTag": OutputTag,
        "UNSET": object(),
        "Row": Row,
        "INSERT": RowKind.INSERT,
        "with_kind": with_kind,
        "refuse_change": refuse_change,
    }
    exec(_code(source, filename), scope)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return Compiled(
        scope["run"],
        outputs,
        source,
        filename,
        {len(head) + line: owner for line, owner in loop.owners.items()},
        cuts,
        loop.checks,
        frozenset(loop.of_rows),
        {len(head) + line: text for line, text in loop.parts.items()},
    )


def _begin(loop: _Loop, head: Stage, *, timed: bool, kinded: bool, emitted: bool) -> _Record:
    """The line of the loop itself, and the record it takes."""
    own, keyed = emitted and head.rows, head.call is not None and head.call.bind is not None
    parts = _parts(head) if kinded or not own else None
    if parts is not None:
        # Which record failed is known from how many are left.
        loop.before.append("    rest = iter(values)")
    columns = ["values" if parts is None else "rest"]
    columns += ["timestamps"] * timed + ["kinds"] * kinded + ["rows"] * keyed
    variables = ["t"] * timed + ["k"] * kinded + ["row"] * keyed
    source = columns[0] if len(columns) == 1 else f"zip({', '.join(columns)})"
    record = "v" if parts is None else parts if not variables else f"({parts})"
    owner = None if parts is None else head.uid
    loop.add(1, f"for {', '.join([record, *variables])} in {source}:", owner)
    return _Record("v", "t" if timed else None, "k" if kinded else None, own, parted=parts is not None)


def _emit(loop: _Loop, stage: Stage, record: _Record, depth: int) -> None:
    call = stage.call
    result = _Record(f"v{stage.number}", record.time, own=stage.rows)
    if call is None:
        _deliver(loop, stage, record, depth)
        return
    match call.shape:
        case "emitted":
            loop.add(depth, f"for {result.value} in ({record.value},):")
            _sort_out(loop, stage, result, depth)
            _deliver(loop, stage, result, depth + 1)
        case "expressions":
            _evaluate(loop, stage, call, record, depth)
        case "stamp":
            # A separate name: parallel branches must see the time from before this step.
            loop.name(f"f{stage.number}", call.function)
            time = _stamp(loop, stage, call, f"{record.value}, {record.time}", depth)
            _deliver(loop, stage, replace(record, time=time), depth)
        case _:
            _call(loop, stage, call, record, result, depth)


def _call(loop: _Loop, stage: Stage, call: Call, record: _Record, result: _Record, depth: int) -> None:
    """Call a function, and pass on its results."""
    function = loop.name(f"f{stage.number}", call.function)
    value, behind = _given(loop, stage, call, record, depth), depth
    if stage.copies:
        loop.add(depth, f"h{stage.number} = {value} if type({value}) in ATOMS else isolate({value})")
        value = f"h{stage.number}"
    if stage.lookup is not None:
        _look_up(loop, stage, stage.lookup, value, depth)
    elif call.shortcut is not None and (record.time is not None or call.shape == "map") and value == "v":
        loop.names.update(call.shortcut.names)
        given = ["given = UNSET"] if call.shape == "map" else []
        for line in (*given, *call.shortcut.lines):
            loop.add(depth, line, stage.uid)
        if given:
            loop.add(depth, "if given is UNSET:")
            result, depth = replace(result, value="given"), depth + 1
    if call.bind is not None:
        loop.add(depth, f"{loop.name(f'cursor{stage.number}', call.bind)}.row = row")
    match call.shape:
        case "map":
            loop.add(depth, f"{result.value} = {function}({value})", stage.uid)
            depth = behind
        case "filter":
            loop.add(depth, f"if {function}({value}):", stage.uid)
            result = replace(record, value=value, own=record.own or record.kind is not None)
            depth += 1
        case "flat_map":
            loop.add(depth, f"results = {function}({value})", stage.uid)
            _refuse_text(loop, stage, call, depth)
            loop.add(depth, f"for {result.value} in results or ():", stage.uid)
            depth += 1
        case "process":
            _process(loop, stage, call, replace(record, value=value), result, depth)
            depth += 2
        case "emit":
            emitted = replace(result, time=f"t{stage.number}")
            kind = f", {record.kind}" if call.takes_kind and record.kind is not None else ""
            loop.add(
                depth,
                f"for {result.value}, {emitted.time} in {function}({value}, {record.time}{kind}):",
                stage.uid,
            )
            result = emitted
            _sort_out(loop, stage, result, depth)
            depth += 1
    _deliver(loop, stage, result, depth)


def _look_up(loop: _Loop, stage: Stage, lookup: RowLookup, value: str, depth: int) -> None:
    """Let `row` be the row of the record's key."""
    number, key = stage.number, f"key{stage.number}"
    select, plain = loop.name(f"select{number}", lookup.select), loop.name(f"plain{number}", lookup.plain)
    cached, find = loop.name(f"cached{number}", lookup.cached), loop.name(f"find{number}", lookup.find)
    loop.add(depth, f"{key} = {select}({value})", stage.uid, "its key selector")
    loop.add(depth, f"row = {cached}({key}) if type({key}) in {plain} else None")
    loop.add(depth, f"if row is None: row = {find}({key}, {value})", stage.uid)


def _given(loop: _Loop, stage: Stage, call: Call, record: _Record, depth: int) -> str:
    """The argument of a function: a row with the kind of its record; other kinds are refused if it accepts insertions only."""
    value, kind = record.value, record.kind
    own = f"({value}._kind if type({value}) is Row else INSERT)"
    if stage.takes == "insert-only":
        if kind is not None or record.own:
            loop.add(depth, f"if {kind or own}: refuse_change({value}, {kind or own})", stage.uid)
        return value
    if kind is None or record.own or call.takes_kind:
        return value
    given = f"r{stage.number}"
    loop.add(depth, f"{given} = {value} if {own} is {kind} else with_kind({value}, {kind})", stage.uid)
    return given


def _evaluate(loop: _Loop, stage: Stage, call: Call, record: _Record, depth: int) -> None:
    """Compute each output inline; kinds are those of the records."""
    expressions, uid, number = call.expressions, stage.uid, stage.number
    assert expressions is not None
    sides = dict(stage.sides)
    given, suffix = (record.value, record.time), f"_{number}"
    loop.names.update(expressions.bound(suffix))
    if record.kind is None and record.own:
        loop.add(depth, f"k{number} = {record.value}._kind if type({record.value}) is Row else INSERT")
        record = replace(record, kind=f"k{number}")
    if expressions.columns and not record.parted:
        loop.add(depth, f"{expressions.target(suffix)} = {record.value}", uid)
    for place, branch in enumerate(expressions.branches):
        target = stage if branch.tag is None else sides.get(branch.tag)
        if target is None:
            continue
        inside, result = depth, record
        if branch.where is not None:
            loop.add(depth, f"if {expressions.source(branch.where, *given, suffix)}:", uid, _of(branch.where))
            inside += 1
        if branch.value is not None:
            result = replace(record, value=f"v{number}_{place}", own=False, parted=False)
            computed = expressions.source(branch.value, *given, suffix)
            if _only_keeps(loop, target):
                (output,) = target.outputs
                loop.add(inside, f"out{output}.append({computed})", uid, _of(branch.value))
                _keep_columns(loop, target, output, result, inside)
                continue
            loop.add(inside, f"{result.value} = {computed}", uid, _of(branch.value))
        _deliver(loop, target, result, inside)
    loop.add(depth, "pass")


def _of(expression: str) -> str:
    return f"expression {expression!r}"


def _parts(head: Stage) -> str | None:
    """The columns that the loop unpacks records into, if the first step reads only columns."""
    expressions = head.call.expressions if head.call is not None else None
    if expressions is None or not expressions.columns or expressions.reads_record:
        return None
    return expressions.target(f"_{head.number}")


def _comprehend(loop: _Loop, head: Stage) -> bool:
    """Write a comprehension, which appends without a call, if the loop only computes one output from columns."""
    parts = _parts(head)
    if parts is None or not _only_keeps(loop, head):
        return False
    assert head.call is not None
    assert head.call.expressions is not None
    expressions, suffix, (output,) = head.call.expressions, f"_{head.number}", head.outputs
    branch = expressions.branches[0]
    if len(expressions.branches) > 1 or branch.tag is not None or branch.value is None:
        return False
    loop.names.update(expressions.bound(suffix))
    loop.add(1, "rest = iter(values)")
    loop.add(1, f"out{output} = [")
    loop.add(2, expressions.source(branch.value, "v", None, suffix), head.uid, _of(branch.value))
    loop.add(2, f"for {parts} in rest", head.uid)
    if branch.where is not None:
        loop.add(2, f"if {expressions.source(branch.where, 'v', None, suffix)}", head.uid, _of(branch.where))
    loop.add(1, "]")
    loop.add(1, f"return ((out{output}, None),)")
    if head.rows:
        loop.of_rows.add(output)
    return True


def _only_keeps(loop: _Loop, stage: Stage) -> bool:
    """Whether the results of a stage are only appended to an output."""
    return (
        len(stage.outputs) == 1
        and not stage.children
        and not stage.isolated
        and stage.shape is None
        and stage.number not in loop.checks
        and stage.outputs[0] not in loop.encoders
    )


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


def _process(loop: _Loop, stage: Stage, call: Call, record: _Record, result: _Record, depth: int) -> None:
    number = stage.number
    context = loop.name(f"ctx{number}", call.context)
    if record.time is None:
        loop.before.append(f"    {context}.stamp = None")
    else:
        loop.add(depth, f"{context}.stamp = {record.time}")
    loop.add(depth, f"results = f{number}({record.value}, {context})", stage.uid)
    _refuse_text(loop, stage, call, depth)
    loop.add(depth, "if results is not None:")
    loop.add(depth + 1, f"for {result.value} in results:", stage.uid)
    _sort_out(loop, stage, result, depth + 1)


def _refuse_text(loop: _Loop, stage: Stage, call: Call, depth: int) -> None:
    """Refuse a string in place of a list of results, unless the function cannot return one."""
    if may_return_text(call.function):
        loop.add(depth, f"if type(results) is str: refuse_text(results, f{stage.number})", stage.uid)


def _sort_out(loop: _Loop, stage: Stage, record: _Record, depth: int) -> None:
    """Send tagged results to their side output; drop them if the side output is not used."""
    number, result = stage.number, record.value
    # Most results have no tag, so the length, which costs a call, is tested last.
    tagged = f"type({result}) is tuple and {result} and type({result}[0]) is OutputTag and len({result}) == 2"
    loop.add(depth + 1, f"if {tagged}:")
    for place, (tag, side) in enumerate(stage.sides):
        loop.add(depth + 2, f"if {result}[0] == {loop.name(f'tag{number}_{place}', tag)}:")
        loop.add(depth + 3, f"s{number} = {result}[1]")
        _deliver(loop, side, replace(record, value=f"s{number}", own=side.rows), depth + 3)
    loop.add(depth + 2, "continue")


def _deliver(loop: _Loop, stage: Stage, record: _Record, depth: int) -> None:
    value = record.value
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
        _keep_columns(loop, stage, output, record, depth)
    for child in stage.children:
        _emit(loop, child, record, depth)
    if not stage.outputs and not stage.children:
        loop.add(depth, "pass")


def _keep_columns(loop: _Loop, stage: Stage, output: int, record: _Record, depth: int) -> None:
    """Append time and kind of a record to those of an output."""
    if record.time is not None:
        loop.timed.add(output)
        loop.add(depth, f"times{output}.append({record.time})")
    if record.kind is not None:
        loop.kinded.add(output)
        loop.add(depth, f"kinds{output}.append({record.kind})")
    elif stage.rows and output not in loop.encoders:
        loop.of_rows.add(output)
