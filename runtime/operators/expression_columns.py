"""Expressions on Arrow batches: converts only the columns that they read.

A text reads columns if all it does with the record is to take fields of it: `v["amount"]`, `v[0]`, or the name of a column.
A value that only lists fields stays Arrow. Everything else is computed from rows, and so is an expression that fails
here: the generated loop reports the record.

Example:
    >>> import pyarrow as pa
    >>> from tidegate.runtime.operators.expressions import Branch, Expressions
    >>> orders = Batch(ArrowRows(pa.record_batch({"id": [1, 2], "amount": [20.0, 3.0], "note": ["a", "b"]})))
    >>> large = Expressions((Branch('{"id": v["id"]}', where='v["amount"] > 10'),))
    >>> ((_, found),) = ExpressionColumns(large).computed(orders)
    >>> found.values.converted, orders.values.converted, found.values.rows()
    (False, False, [{'id': 1}])
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from tidegate.arrow_rows import ArrowRows, RowForm
from tidegate.elements import Batch, Origin

if TYPE_CHECKING:
    from tidegate.runtime.operators.expressions import Branch, Expressions

__all__ = ["ExpressionColumns"]

_FieldOf: TypeAlias = str | int


class ExpressionColumns:
    """The expressions of one step, compiled to functions of columns."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._plans: dict[RowForm, list[tuple[_Text | None, _Text | None]] | None] = {}

    def computed(self, batch: Batch) -> list[tuple[Branch, Batch]] | None:
        """The results of each branch for Arrow rows, with their origin; None if it has to be computed from rows."""
        rows, branches = batch.values, self._expressions.branches
        assert isinstance(rows, ArrowRows)
        if rows.form not in self._plans:
            self._plans[rows.form] = self._plan(rows.form)
        plan, named = self._plans[rows.form], self._expressions.columns
        if plan is None or (named and len(named) != len(rows.names)):
            return None
        column = cache(rows.column)
        try:
            parts = [_part(batch, rows, where, value, column) for where, value in plan]
        except Exception:  # the loop over rows fails in the same way, and reports the record
            return None
        return list(zip(branches, parts, strict=True))

    def _plan(self, form: RowForm) -> list[tuple[_Text | None, _Text | None]] | None:
        found = []
        for branch in self._expressions.branches:
            where, value = (
                None if text is None else _text(self._expressions, text, form)
                for text in (branch.where, branch.value)
            )
            if (where is None) != (branch.where is None) or (value is None) != (branch.value is None):
                return None
            found.append((where, value))
        return found


@dataclass(frozen=True, slots=True)
class _Text:
    """One expression: the fields it reads, and its results from times and these columns.

    If it only lists fields, `form` and `names` are those of the rows it makes.
    """

    fields: tuple[_FieldOf, ...]
    results: Callable[..., list[Any]]
    form: RowForm | None = None
    names: tuple[str, ...] = ()


def _part(
    batch: Batch,
    rows: ArrowRows,
    where: _Text | None,
    value: _Text | None,
    column: Callable[[_FieldOf], list[Any]],
) -> Batch:
    """The results of one branch."""
    times: Sequence[Any] = batch.timestamps or [None] * len(batch)
    places: Sequence[int] = range(len(batch))
    if where is not None:
        kept = where.results(times, *map(column, where.fields))
        places = [place for place, keep in enumerate(kept) if keep]
    if value is not None and value.form is not None:
        batch = replace(batch, values=rows.project(value.fields, value.names, value.form))
    elif value is not None:
        batch = replace(batch, values=range(len(batch)))  # placeholders for the values computed below
    part = _at(batch, places) if len(places) < len(batch) else batch
    if value is None or value.form is not None:
        return part
    given = [times, *map(column, value.fields)]
    picked = given if part is batch else [[each[place] for place in places] for each in given]
    return replace(part, values=value.results(*picked))


def _at(batch: Batch, places: Sequence[int]) -> Batch:
    part, origin = batch.select(places), batch.origin
    if origin is not None:
        part.origin = Origin(origin.split, [origin.positions[place] for place in places])
    return part


def _text(expressions: Expressions, text: str, form: RowForm) -> _Text | None:
    """An expression as a function of columns; None if it reads the record as a whole."""
    tree = ast.parse(text, mode="eval")
    reads = _Reads(expressions.columns, form)
    body = reads.visit(tree.body)
    if reads.whole:
        return None
    targets = ", ".join(["t", *map(_name, range(len(reads.fields))), ""])
    source = (
        f"lambda tidegate_times, *tidegate_columns: [{ast.unparse(body)} "
        f"for {targets}in zip(tidegate_times, *tidegate_columns)]"
    )
    results = eval(compile(source, f"<tidegate columns of {text}>", "eval"), dict(expressions.names))
    listed = _listed(body, reads.fields)
    if listed is None:
        return _Text(tuple(reads.fields), results)
    return _Text(listed[0], results, *listed[1:])


def _listed(
    body: ast.expr, fields: list[_FieldOf]
) -> tuple[tuple[_FieldOf, ...], RowForm, tuple[str, ...]] | None:
    """The fields, form and names of a row that does nothing but list fields."""
    names = list(map(_name, range(len(fields))))
    elements = body.values if isinstance(body, ast.Dict) else body.elts if isinstance(body, ast.Tuple) else []
    read = [names.index(each.id) for each in elements if isinstance(each, ast.Name) and each.id in names]
    if not elements or len(read) < len(elements):
        return None
    listed = tuple(fields[number] for number in read)
    if not isinstance(body, ast.Dict):
        return listed, "tuple", tuple(f"f{number}" for number in range(len(listed)))
    keys = [each.value for each in body.keys if isinstance(each, ast.Constant) and type(each.value) is str]
    return (listed, "dict", tuple(keys)) if len(set(keys)) == len(listed) else None


class _Reads(ast.NodeTransformer):
    """Replaces each field that an expression reads with a variable."""

    def __init__(self, columns: Sequence[str], form: RowForm) -> None:
        self.fields: list[_FieldOf] = []
        self.whole = form == "dict" and bool(columns)
        """Whether it uses the record in any other way, such as unpacking it by position."""
        self._columns = columns

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(ast.Name("v"), ast.Constant(int() | str() as field)) if (
                type(field) is not bool
            ):
                return self._read(field)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._columns:
            return self._read(self._columns.index(node.id))
        self.whole = self.whole or node.id == "v"
        return node

    def _read(self, field: _FieldOf) -> ast.Name:
        if field not in self.fields:
            self.fields.append(field)
        return ast.Name(_name(self.fields.index(field)), ast.Load())


def _name(number: int) -> str:
    return f"tidegate_field_{number}"
