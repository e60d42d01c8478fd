"""`format("tidegate-state")`: a state of a checkpoint or savepoint as a table of Spark, a task for each range of key groups.

Columns are those of `StateReader.table`, or of `StateReader.timers`. Their types are inferred from the first key groups
that hold a record; `.schema(...)` sets others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tidegate.errors import ConfigError, RecordError
from tidegate.keys import KeyGroupRange
from tidegate.options import Layer, load, option
from tidegate.runtime.checkpoint.reader import StateReader
from tidegate.runtime.spark.datasource.records import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["StateDataSource", "StateTable"]


@dataclass(frozen=True)
class StateTable:
    """The snapshot, operator and state to read."""

    path: str = option("path", "", "the checkpoint or savepoint")
    uid: str | None = option("uid", None, "the operator; not needed where one alone keeps state by key")
    state: str | None = option("state", None, "the state; not needed where the operator has one alone")
    timers: Literal["event", "processing"] | None = option("timers", None, "its timers instead of a state")
    backend: str = option("backend", "filesystem", "what opens it; rocksdb where it is larger than memory")

    @staticmethod
    def of(options: Mapping[str, str]) -> StateTable:
        """Read the options.

        Raises:
            ConfigError: an option is unknown or wrong, or there is no path.
        """
        found = load(
            StateTable, Layer("the options of tidegate-state", {k.lower(): v for k, v in options.items()})
        )
        if not found.path:
            raise ConfigError(
                "tidegate-state needs a checkpoint; got none; expected .load('<root>/<run>/chk-<n>') or a savepoint"
            )
        return found

    def opened(self) -> StateReader:
        """The snapshot; to be closed."""
        return StateReader(self.path, backend=self.backend)

    def operator(self, reader: StateReader) -> str:
        """The operator.

        Raises:
            ConfigError: there are several, or none.
        """
        return self.uid or _the_only(reader.operators(), "uid", f"{self.path} has the operators")

    def read(self, reader: StateReader, key_groups: KeyGroupRange | None) -> pa.Table:
        """The records in some key groups.

        Raises:
            ConfigError: the operator or state does not exist, or several exist and none is named.
        """
        operator = self.operator(reader)
        if self.timers is not None:
            return reader.timers(operator, self.timers, key_groups=key_groups)
        states = reader.operators().get(operator, ())
        state = self.state or _the_only(states, "state", f"operator {operator!r} has the states")
        return reader.table(operator, state, key_groups=key_groups)


class StateDataSource(DataSource):
    """Reads states."""

    @classmethod
    def name(cls) -> str:
        """Its name."""
        return "tidegate-state"

    def schema(self) -> StructType:
        """The schema of the first records."""
        from pyspark.sql.pandas.types import from_arrow_schema

        wanted = StateTable.of(self.options)
        with wanted.opened() as reader:
            for key_groups in reader.key_groups(wanted.operator(reader)):
                found = wanted.read(reader, key_groups)
                if found.num_rows:
                    break
            return from_arrow_schema(found.schema)

    def reader(self, schema: StructType) -> StateTableReader:
        """Reads a range of key groups in each task."""
        return StateTableReader(StateTable.of(self.options), schema)


class StateTableReader(DataSourceReader):
    """Reads the state of an operator's subtasks."""

    def __init__(self, wanted: StateTable, schema: StructType) -> None:
        self._wanted = wanted
        self._schema = schema

    def partitions(self) -> list[Any]:
        """The ranges of key groups of the subtasks."""
        with self._wanted.opened() as reader:
            return [InputPartition(each) for each in reader.key_groups(self._wanted.operator(reader))]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The records of a range."""
        import pyarrow

        expected = arrow_schema(self._schema)
        with self._wanted.opened() as reader:
            found = self._wanted.read(reader, partition.value)
            if not found.num_rows:
                return
            try:
                table = found.select(expected.names).cast(expected)
            except (pyarrow.ArrowException, KeyError, ValueError) as error:
                raise RecordError(
                    f"key groups {partition.value} hold records of other types ({error}); set types that match all by "
                    ".schema(...)"
                ) from error
            yield from table.to_batches()


def _the_only(names: Any, key: str, what: str) -> str:
    known = sorted(names)
    if len(known) != 1:
        raise ConfigError(f"{what} {', '.join(known) or 'none'}; expected one of them by the option {key}")
    return str(known[0])
