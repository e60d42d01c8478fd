"""Opens the context of an operator: what its functions get, over what the operator starts from."""

from __future__ import annotations

import dataclasses
from functools import partial

import msgspec

from tidegate.backends.keyed.store import KeyedStore
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.metrics import MetricGroup
from tidegate.runtime.operators.async_process import is_async
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.operators.operator_list import read

__all__ = ["is_keyed", "open_context"]


def open_context(vertex: JobVertex, node: StreamNode, env: ChainEnvironment) -> OperatorContext:
    """The context of a step in a subtask of its vertex, its operator state in memory.

    Raises:
        ConfigError: there is state of keys, and the input has none.
    """
    restored = env.operator(node.uid)
    lists = tuple(read(held, env.state.files) for held in restored.lists)
    context = OperatorContext(
        node.uid,
        node.name,
        env,
        partial(_open_store, vertex, node, env) if is_keyed(vertex, node) else None,
        msgspec.structs.replace(restored, lists=lists),
        asynchronous=node.kind in ("process", "co_process") and is_async(node.payload),
    )
    if restored.keyed:
        # State that the function does not ask for any more is carried on, not forgotten.
        context.keyed_store("has state")
    return context


def is_keyed(vertex: JobVertex, node: StreamNode) -> bool:
    """Whether the input of a step has keys: only that of the first one can."""
    return node.uid == vertex.head.uid and vertex.keyed is not None


def _open_store(vertex: JobVertex, node: StreamNode, env: ChainEnvironment) -> KeyedStore:
    directory, state = env.directory(node.uid), env.state
    versions = state.versions / directory.name if state.versions is not None else None
    store = KeyedStore(
        env.backend,
        env.key_groups,
        env.max_parallelism,
        env.operator(node.uid).keyed,
        dataclasses.replace(state, directory=directory, versions=versions),
        cache_entries=env.cache_entries,
        now_ns=env.clock.now_ns,
        uploads=env.uploads,
        incremental=env.incremental,
        journaled=vertex.journaled,
    )
    prefix = f"{node.uid}.{env.subtask.index}"
    group = MetricGroup(prefix, env.measures.metrics, env.clock.monotonic).add_group(env.backend.name)
    for name, tell in store.metrics.items():
        group.gauge(name, tell)
    return store
