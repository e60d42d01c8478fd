"""Keys of records: the result of the program's key selector in canonical form, and the subtask it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.arrow_rows import ArrowRows
from tidegate.backends.keyed.row import Row
from tidegate.backends.keyed.store import KeyedStore
from tidegate.elements import Batch
from tidegate.errors import ConfigError, InternalError
from tidegate.failures import failure_of
from tidegate.ids import OperatorUid
from tidegate.keys import canonical, canonical_batch, key_bytes, key_group
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.operators.failure import show
from tidegate.runtime.stream.key_selectors import FieldSelector

if TYPE_CHECKING:
    from tidegate.runtime.graph.transformations import Hash

__all__ = ["Keying", "OwnKeys", "each_of", "selected"]


class Keying:
    """Adds keys to the batches of a step; called as a function."""

    def __init__(self, partition: Hash, node: OperatorUid) -> None:
        self._partition = partition
        self._node = node

    def __call__(self, batch: Batch) -> Batch:
        """The same batch with its keys.

        Raises:
            RecordError: a key has no canonical form.
            UserCodeError: the key selector failed.
        """
        batch, keys = selected(self._partition.selector, batch, self._node)
        return batch.with_keys(canonical_batch(keys, self._partition.key_type))


def selected(selector: Callable[[Any], Any], batch: Batch, node: OperatorUid) -> tuple[Batch, list[Any]]:
    """A batch and its keys. An Arrow batch stays one if the selector names a column; a function gets rows, and so do the
    receivers.

    Raises:
        UserCodeError: the key selector failed.
    """
    if isinstance(batch.values, ArrowRows) and isinstance(selector, FieldSelector):
        with suppress(KeyError):  # the selector reports it with the record
            return batch, batch.values.column(selector.field)
    batch = batch.in_rows()
    return batch, each_of("key selector", selector, batch.values, batch.values, node)


def each_of(
    what: str, function: Callable[[Any], Any], given: Sequence[Any], records: Sequence[Any], node: OperatorUid
) -> list[Any]:
    """Results of a function of the program for each of some values; where it fails, the error names the record."""
    rest = iter(given)
    try:
        # `map` would treat a StopIteration of the function as the end of the records.
        return [function(each) for each in rest]
    except BaseException as error:
        record = records[len(given) - len(list(rest)) - 1]
        where = f"the {what} behind operator {node!r} failed on record {show(record)}"
        raise failure_of(where, error) from error


class OwnKeys:
    """The keys of a subtask, for a step whose records stay where an earlier step has them by key."""

    def __init__(self, by: Hash, env: ChainEnvironment) -> None:
        self._key_type = by.key_type
        self._env = env

    def find(self, store: KeyedStore, key: Any, record: Any) -> Row:
        """The row of the key of a record.

        Raises:
            ConfigError: the key belongs to another subtask.
            RecordError: it has no canonical form.
        """
        own = canonical(key, self._key_type)
        try:
            store.bind(own)
        except InternalError:
            self.check(own, record)
            raise
        return store.cursor.row

    def check(self, key: Any, record: Any) -> None:
        """Refuse a canonical key that belongs to another subtask; raises as `find` does."""
        env = self._env
        group = key_group(key_bytes(key), env.max_parallelism)
        if group not in env.key_groups:
            raise ConfigError(
                f"key {show(key)} of record {show(record)} belongs to another subtask; got key group {group}; expected groups "
                f"{env.key_groups.first} to {env.key_groups.last - 1}; the input is not partitioned by this key: use "
                "key_by(...) in place of reinterpret_as_keyed_stream(...)"
            )
