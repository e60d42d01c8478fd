"""Projections and filters given as source text, which become part of the generated loop: no call per record.

Used by planners. The row kind of a record does not change.

Example:
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> orders = env.from_collection([(1, 20.0), (2, 3.0)])
    >>> taxed = Expressions((Branch("(id, amount * rate)", where="amount > 10"),), ("id", "amount"), {"rate": 1.5})
    >>> list(orders.transform("taxed", EXPRESSIONS, taxed).execute_and_collect())
    [(1, 30.0)]
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Final

from tidegate.errors import ConfigError
from tidegate.runtime.operators.operator import Call, Operator, StepInput, StepKind
from tidegate.runtime.stream.tags import OutputTag

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode
    from tidegate.runtime.operators.context import OperatorContext

__all__ = ["EXPRESSIONS", "Branch", "Expressions"]

_RECORD: Final = ("v", "t")
_REFUSED: Final = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True, slots=True)
class Branch:
    """One output of the step.

    Args:
        value: The expression it emits for a record; the record itself if None.
        where: The condition for records; all of them if None.
        tag: The tag of the side output; the main output if None.
    """

    value: str | None = None
    where: str | None = None
    tag: OutputTag | None = None


@dataclass(frozen=True, slots=True)
class Expressions:
    """The payload of the step: Python expressions, where `v` is the record and `t` its time or None.

    Args:
        branches: The outputs; a record goes through all of them in order.
        columns: Names of the fields of the record, which has as many; none if it is not a tuple or row.
        names: Names that expressions may use besides `v`, `t`, the columns and Python's builtins.

    Raises:
        ConfigError: a text is not an expression, uses an unknown name, or assigns a name; or a name is not an
            identifier, or is defined twice.
    """

    branches: tuple[Branch, ...]
    columns: tuple[str, ...] = ()
    names: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = [*_RECORD, *self.columns, *self.names]
        wrong = [
            name for name in known if known.count(name) > 1 or not name.isidentifier() or iskeyword(name)
        ]
        if wrong:
            raise ConfigError(
                f"names of expressions repeat or are not Python names; got {sorted(set(wrong))}; expected identifiers "
                "other than 'v' and 't', each once"
            )
        for text in (text for each in self.branches for text in (each.value, each.where) if text is not None):
            self._check(text)

    @property
    def reads_record(self) -> bool:
        """Whether some output is the record, or an expression reads it whole."""
        texts = [text for each in self.branches for text in (each.value, each.where) if text is not None]
        return any(each.value is None for each in self.branches) or any(
            isinstance(node, ast.Name) and node.id == "v"
            for text in texts
            for node in ast.walk(ast.parse(text, mode="eval"))
        )

    def target(self, suffix: str) -> str:
        """The assignment target that unpacks a record into the variables that `source` uses."""
        return "".join(f"{column}{suffix}, " for column in self.columns).rstrip(" ")

    def bound(self, suffix: str) -> dict[str, Any]:
        """The objects by the names that `source` uses."""
        return {f"{name}{suffix}": value for name, value in self.names.items()}

    def source(self, text: str, value: str, time: str | None, suffix: str) -> str:
        """The source of an expression in the loop, where the record and its time are variables, and names end with `suffix`."""
        renamed = {name: f"{name}{suffix}" for name in (*self.columns, *self.names)}
        renamed |= {"v": value, "t": time or "None"}
        tree = ast.parse(text, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = renamed.get(node.id, node.id)
        return ast.unparse(tree)

    def _check(self, text: str) -> None:
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError as error:
            raise ConfigError(f"expression {text!r} is not valid Python: {error.msg}") from error
        own, known = set(_own_names(tree)), {*_RECORD, *self.columns, *self.names}
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        unknown = sorted(used - known - own - set(dir(builtins)))
        if unknown:
            raise ConfigError(
                f"expression {text!r} uses unknown names {unknown}; expected 'v', 't', or one of "
                f"{[*self.columns, *sorted(self.names)]}; give it in names"
            )
        if own & known or any(isinstance(node, _REFUSED) for node in ast.walk(tree)):
            raise ConfigError(
                f"expression {text!r} assigns a name, awaits or yields; expected one that only computes; use a map function"
            )


def _own_names(tree: ast.AST) -> Iterator[str]:
    """The variables of its comprehensions and lambdas."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _open(node: StreamNode, context: OperatorContext) -> Operator:
    return Operator((Call("expressions", expressions=node.payload),))


EXPRESSIONS: Final = StepKind(
    "expressions",
    _open,
    inputs=(StepInput(takes="any"),),
    gives="input",
    side_outputs=True,
    keeps_records=True,
    nests=True,
)
