"""Opens the operators of a chain with their restored state, and closes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from tidegate.backends.keyed.store import KeyedStore
from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid
from tidegate.runtime.metrics import MetricGroup
from tidegate.runtime.operators.async_process import is_async
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.environment import ChainEnvironment, RestoredOperator
from tidegate.runtime.operators.failure import blame
from tidegate.runtime.operators.operator import Deferring, Operator, Role
from tidegate.runtime.operators.operator_list import read
from tidegate.runtime.operators.stamp import Stamp
from tidegate.runtime.stream.functions import Function

if TYPE_CHECKING:
    from tidegate.runtime.graph.job_graph import JobVertex
    from tidegate.runtime.graph.stream_graph import StreamNode

__all__ = ["ChainOperators"]


class ChainOperators:
    """The operators of one vertex in one subtask, with the contexts of their functions."""

    def __init__(self, vertex: JobVertex, env: ChainEnvironment) -> None:
        self.contexts: dict[OperatorUid, OperatorContext] = {}
        """The contexts of functions, including those of sources, whose functions run in readers."""
        self.deferring: dict[OperatorUid, Deferring] = {}
        """The asynchronous operators."""
        self._vertex = vertex
        self._env = env
        self._operators: dict[OperatorUid, Operator] = {}
        self._functions: list[tuple[OperatorUid, Function]] = []

    def open(self, node: StreamNode) -> None:
        """Open the state, the function and the operator of a step; steps that call nothing have no operator.

        Raises:
            ConfigError: a function declares keyed state, and the input has no key; or its state was renamed.
        """
        if node.kind.role is Role.SIDE_OUTPUT:
            return
        context = self.contexts[node.uid] = _context(self._vertex, node, self._env)
        if node.kind.role is Role.OPERATOR:
            if isinstance(node.payload, Function):
                self._functions.append((node.uid, node.payload))
            with self.blame(node.uid, "open"):
                context.functions.open(node.payload)
        operator = node.kind.open(node, context)
        _refuse_renamed(node.uid, context)
        if operator is not None:
            self._operators[node.uid] = operator
        if isinstance(operator, Deferring):
            self.deferring[node.uid] = operator

    def get(self, uid: OperatorUid) -> Operator | None:
        """The operator of a step; None if the step calls nothing."""
        return self._operators.get(uid)

    def all(self) -> Iterable[tuple[OperatorUid, Operator]]:
        """Every operator with the uid of its step, in the order of the chain."""
        return self._operators.items()

    def stamp(self, uid: OperatorUid) -> Stamp | None:
        """The step's event time, if it creates watermarks."""
        operator = self._operators.get(uid)
        return operator if isinstance(operator, Stamp) else None

    @property
    def stores(self) -> dict[OperatorUid, KeyedStore]:
        """The keyed state of each operator that has some."""
        return {uid: each.store for uid, each in self._operators.items() if each.store is not None}

    def ready(self) -> bool:
        """Whether every operator can accept another batch."""
        return all(operator.ready() for operator in self.deferring.values())

    def empty(self) -> bool:
        """Whether the results of all input were emitted."""
        return all(operator.empty() for operator in self.deferring.values())

    def settled(self) -> bool:
        """Whether a snapshot can be taken."""
        return all(operator.settled() for operator in self.deferring.values())

    def blame(self, uid: OperatorUid, doing: str) -> AbstractContextManager[None]:
        """Name the step in the errors of its function."""
        return blame(self._vertex.nodes[uid], self._env.subtask, doing)

    def close(self) -> None:
        """Close functions, then writers and state; all of them, even if one fails."""
        closers: list[Callable[[], None]] = [partial(self._close_function, *each) for each in self._functions]
        errors: list[BaseException] = []
        for close in [*closers, *(operator.close for operator in self._operators.values())]:
            try:
                close()
            except BaseException as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _close_function(self, uid: OperatorUid, function: Function) -> None:
        with self.blame(uid, "close"):
            function.close()


def _context(vertex: JobVertex, node: StreamNode, env: ChainEnvironment) -> OperatorContext:
    """The context of a step, with its operator state in memory."""
    keyed = node.uid in vertex.keyed
    restored = env.operator(node.uid)
    lists = tuple(read(held, env.state.files) for held in restored.lists)
    context = OperatorContext(
        node.uid,
        node.name,
        env,
        partial(_open_store, vertex, node, env) if keyed else None,
        msgspec.structs.replace(restored, lists=lists),
        asynchronous=node.kind.may_await and is_async(node.payload),
    )
    if restored.keyed:
        # State that the function does not declare any more is kept, not dropped.
        context.keyed_store("has state")
    return context


def _open_store(vertex: JobVertex, node: StreamNode, env: ChainEnvironment) -> KeyedStore:
    directory, state = env.directory(node.uid), env.state
    versions = state.versions / directory.name if state.versions is not None else None
    memory = state.memory_bytes // len(vertex.keyed) if state.memory_bytes is not None else None
    store = KeyedStore(
        env.backend,
        env.key_groups,
        env.max_parallelism,
        env.operator(node.uid).keyed,
        dataclasses.replace(state, directory=directory, versions=versions, memory_bytes=memory),
        cache_entries=env.cache_entries,
        now_ns=env.clock.now_ns,
        uploads=env.uploads,
        incremental=env.incremental,
        journaled=node.uid in vertex.journaled,
    )
    prefix = f"{node.uid}.{env.subtask.index}"
    group = MetricGroup(prefix, env.measures.metrics, env.clock.monotonic).add_group(env.backend.name)
    for name, tell in store.metrics.items():
        group.gauge(name, tell)
    return store


def _refuse_renamed(uid: OperatorUid, context: OperatorContext) -> None:
    """Refuse a function that declares new state while restored state of the same kind is not declared: it may be the same
    state, renamed.

    Nothing is refused with --allow-non-restored-state.

    Raises:
        ConfigError: a restored state is not declared, and a new one of its kind is.
    """
    restored: RestoredOperator = context.restored
    if restored.may_leave:
        return
    pairs = context.states.rename_candidates()
    if context.store is not None:
        pairs += context.store.rename_candidates()
    if pairs:
        old, new = (
            ", ".join(repr(name) for name in dict.fromkeys(side)) for side in zip(*pairs, strict=True)
        )
        raise ConfigError(
            f"operator {uid!r}: its checkpoint holds state {old}, which its function does not declare, and the function "
            f"declares {new}, which the checkpoint does not hold; if the state was renamed, give it its old name back; "
            "if not, start once with --allow-non-restored-state, and the new state begins empty; or start with --fresh"
        )
