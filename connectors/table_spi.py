"""Contract of table factories: what a connector owes to tables.

A factory makes a *table source* or a *table sink* of a `TableDescription`: a schema and options as text. Both are
descriptions like `Source` and `Sink`: frozen, picklable, without I/O when made. The planner asks them for their abilities
and replaces them by what a `with_...` method answers; at last it asks for the `Source` or `Sink` that runs.

*Calls.* Unless a method says otherwise, it is called by the planner, in the launching process, by one thread, any number of
times; it must not block, changes nothing, answers the same for the same arguments, and leaves nothing behind if the process
crashes.

*Rows.* A row is a plain tuple, its values are of the classes of `tidegate.type_values`. `Batch.values` are rows and
`Batch.kinds` their kinds; None means that all are insertions, as they always are where the changelog mode is insert-only. The
order is that of the physical columns of the schema, or of the projection, and then of the metadata columns that were asked
for. A source decodes in its reader, so what cannot be decoded has a split and a position, and goes where its dead letters go.

Example:
    >>> from tidegate.schema import Schema
    >>> schema = Schema.new_builder().column("id", "BIGINT").build()
    >>> options = {"connector": "datagen", "number-of-rows": "10"}
    >>> table_source(TableDescription("orders", schema, options)).scan().bounded
    True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable

from tidegate import registry
from tidegate.changelog import ChangelogMode
from tidegate.connectors.spi import Sink, Source
from tidegate.errors import ConfigError, InternalError
from tidegate.logical_types import LogicalType
from tidegate.options import Layer, load
from tidegate.schema import MetadataColumn, Schema, check_column

__all__ = [
    "And",
    "AsyncLookupFunction",
    "Comparison",
    "Filter",
    "IsNull",
    "LookupFunction",
    "LookupTableSource",
    "Not",
    "Or",
    "PushedFilters",
    "ScanTableSource",
    "SupportsAsyncLookup",
    "SupportsFilter",
    "SupportsLimit",
    "SupportsNestedProjection",
    "SupportsOverwrite",
    "SupportsParallelism",
    "SupportsPartitioning",
    "SupportsPartitions",
    "SupportsProjection",
    "SupportsReadingMetadata",
    "SupportsSourceWatermark",
    "SupportsTableSink",
    "SupportsTableSource",
    "SupportsWatermark",
    "SupportsWritingMetadata",
    "TableDescription",
    "TableFactory",
    "TableSink",
    "TableSource",
    "push_filters",
    "table_sink",
    "table_source",
]

CONNECTOR: Final = "connector"
"""The option that names the factory."""


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table as it was declared.

    Args:
        name: What messages call it.
        schema: Its columns.
        options: As they were written, `connector` among them.
        partitioned_by: The columns whose values name a partition, all of them physical.

    Raises:
        ConfigError: a partition column is not a physical column.
    """

    name: str
    schema: Schema
    options: Mapping[str, str]
    partitioned_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        physical = [column.name for column in self.schema.physical]
        for name in self.partitioned_by:
            check_column(
                name, physical, f"the physical columns of table {self.name}, which is partitioned by it"
            )


class TableFactory(Protocol):
    """What an entry point `tidegate.tables` names; the name of the entry point is its identifier, the option `connector`.

    A class that is made without arguments. It has one or both of `SupportsTableSource` and `SupportsTableSink`.
    """

    options: type[Any]
    """A frozen dataclass of `tidegate.options`: `required` and `option` fields, and `prefixed` ones for keys like `properties.*`."""


@runtime_checkable
class SupportsTableSource(Protocol):
    """A factory of tables that can be read."""

    def source(self, table: TableDescription, options: Any) -> TableSource:
        """A source of its rows. `options` is an object of the factory's `options`, loaded from those of the table.

        Raises:
            ConfigError: the schema or the options are invalid.
        """
        ...


@runtime_checkable
class SupportsTableSink(Protocol):
    """A factory of tables that can be written."""

    def sink(self, table: TableDescription, options: Any) -> TableSink:
        """A sink for its rows. `options` is an object of the factory's `options`, loaded from those of the table.

        Raises:
            ConfigError: the schema or the options are invalid.
        """
        ...


class ScanTableSource(ABC):
    """A table that is read from beginning to end, or for ever; whether it ends is told by its `Source.bounded`."""

    @property
    @abstractmethod
    def changelog_mode(self) -> ChangelogMode:
        """The kinds that its rows may have; a row of another kind is an error of the source."""

    @abstractmethod
    def scan(self) -> Source[Any]:
        """The source whose batches are rows. Called when everything was pushed into it that will be.

        Raises:
            ConfigError: it cannot be read as it was declared.
        """


class LookupFunction(ABC):
    """Finds rows by key, from outside. One for each subtask, called by its thread alone."""

    def open(self) -> None:  # noqa: B027
        """Connect. Called once before any lookup; may block.

        Raises:
            UnavailableError: the system did not answer; the subtask fails and is restored.
        """

    @abstractmethod
    def lookup(self, keys: Sequence[tuple[Any, ...]]) -> Sequence[Sequence[tuple[Any, ...]]]:
        """The rows that have each key, in the order of the keys; as of any moment of the call.

        Called for each batch; may block. After a crash keys are asked for again, so it changes nothing outside.

        Raises:
            UnavailableError: the system did not answer; the subtask fails and is restored.
        """

    def close(self) -> None:  # noqa: B027
        """Release resources; called once, also after an error."""


class AsyncLookupFunction(ABC):
    """Finds rows by key while others are looked up. Called in the event loop of its subtask, by its thread alone."""

    async def open(self) -> None:  # noqa: B027
        """Connect. Called once before any lookup; raises as `lookup` does."""

    @abstractmethod
    async def lookup(self, key: tuple[Any, ...]) -> Sequence[tuple[Any, ...]]:
        """The rows that have a key. Called for each, several at once; must not block the loop, changes nothing outside.

        Raises:
            UnavailableError: the system did not answer; the subtask fails and is restored.
        """

    async def close(self) -> None:  # noqa: B027
        """Release resources; called once, also after an error."""


class LookupTableSource(ABC):
    """A table whose rows are found by key; a class may be a `ScanTableSource` as well."""

    @abstractmethod
    def lookup(self, columns: tuple[str, ...]) -> LookupFunction:
        """What finds rows whose columns equal a key, whose values are in the order of `columns`. Picklable until it is open.

        Raises:
            ConfigError: rows cannot be found by these columns.
        """


TableSource: TypeAlias = ScanTableSource | LookupTableSource


class TableSink(ABC):
    """A table that is written."""

    @abstractmethod
    def changelog_mode(self, produced: ChangelogMode) -> ChangelogMode:
        """The kinds that it wants of a query that can produce these.

        It may ask for fewer, such as for no UPDATE_BEFORE. If it wants none of a kind that cannot be left out, such as DELETE, the
        statement is refused.
        """

    @abstractmethod
    def sink(self) -> Sink:
        """The sink, whose writers take batches of rows. Called when all abilities were asked.

        Raises:
            ConfigError: it cannot be written as it was declared.
        """


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column, perhaps a field in it, compared with a value that is not None; as in SQL, NULL makes it unknown."""

    column: tuple[str, ...]
    operator: Literal["=", "<>", "<", "<=", ">", ">=", "in"]
    value: Any
    """Of the type of the column; for `in` a tuple of such values."""


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column is NULL."""

    column: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class And:
    """All of these."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of these or more."""

    filters: tuple[Filter, ...]


Filter: TypeAlias = Comparison | IsNull | Not | And | Or
"""A condition on one row. A row passes if it is true, not if it is unknown."""


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """What a source does with filters.

    `accepted` are used by `source`; `remaining` are evaluated behind it. One that only leaves out most rows, as by statistics
    of files, is in both. `push_filters` refuses one that is in neither.
    """

    source: ScanTableSource
    accepted: tuple[Filter, ...]
    remaining: tuple[Filter, ...]


@runtime_checkable
class SupportsProjection(Protocol):
    """A table source that makes only the columns that are needed."""

    def with_projection(self, columns: Sequence[str]) -> Self:
        """The source of rows with these physical columns, in this order; perhaps none, then rows are empty tuples."""
        ...


@runtime_checkable
class SupportsNestedProjection(Protocol):
    """A table source that makes only the fields of its columns that are needed; asked instead of `SupportsProjection`."""

    def with_nested_projection(self, paths: Sequence[tuple[str, ...]]) -> Self:
        """The source of rows with a value for each path: a column, then names of fields in it."""
        ...


@runtime_checkable
class SupportsFilter(Protocol):
    """A table source that leaves out rows itself."""

    def with_filters(self, filters: Sequence[Filter]) -> PushedFilters:
        """What it does with these, of which a row has to pass all. Columns are named as in the schema, also if projected."""
        ...


@runtime_checkable
class SupportsLimit(Protocol):
    """A table source that stops early."""

    def with_limit(self, rows: int) -> Self:
        """The source with so many rows or more: each reader may give as many. The limit is checked again behind it."""
        ...


@runtime_checkable
class SupportsPartitions(Protocol):
    """A table source that lists its partitions and reads only some."""

    def partitions(self) -> Sequence[Mapping[str, str]]:
        """The partitions that exist now, as column and value. May connect and block; asked once for a plan.

        Raises:
            UnavailableError: the system did not answer; the plan fails.
        """
        ...

    def with_partitions(self, partitions: Sequence[Mapping[str, str]]) -> Self:
        """The source of the rows of these partitions."""
        ...


@runtime_checkable
class SupportsWatermark(Protocol):
    """A table source whose readers make watermarks for each split, which is exact where splits are read at different speed."""

    def with_watermark(self, column: str, delay_ms: int) -> Self:
        """The source whose records have the time of a column, and whose splits' watermarks stay `delay_ms` behind the largest."""
        ...


@runtime_checkable
class SupportsSourceWatermark(Protocol):
    """A table source whose system knows watermarks: `WATERMARK FOR ts AS SOURCE_WATERMARK()`."""

    def with_source_watermark(self) -> Self:
        """The source whose readers answer the watermarks of the system."""
        ...


@runtime_checkable
class SupportsReadingMetadata(Protocol):
    """A table source that knows more of a record than its columns."""

    @property
    def readable_metadata(self) -> Mapping[str, LogicalType]:
        """What it knows, by key, and of which type."""
        ...

    def with_metadata(self, keys: Sequence[str]) -> Self:
        """The source of rows that have these behind their columns, in this order."""
        ...


@runtime_checkable
class SupportsWritingMetadata(Protocol):
    """A table sink that writes more of a record than its columns."""

    @property
    def writable_metadata(self) -> Mapping[str, LogicalType]:
        """What it writes, by key, and of which type."""
        ...

    def with_metadata(self, keys: Sequence[str]) -> Self:
        """The sink for rows that have these behind their columns, in this order."""
        ...


@runtime_checkable
class SupportsPartitioning(Protocol):
    """A table sink that writes each row to the partition that its partition columns name."""

    def with_partition(self, values: Mapping[str, str], grouped: bool) -> Self:
        """The sink for rows of which these partition columns are fixed; the others are taken from each row.

        Rows have all columns in any case. `grouped`: rows of a partition come one after the other, so one may be open at a time.
        """
        ...


@runtime_checkable
class SupportsOverwrite(Protocol):
    """A table sink that can replace what is there: INSERT OVERWRITE."""

    def with_overwrite(self) -> Self:
        """The sink whose first commit replaces the table, or the partitions that it writes; for bounded queries only."""
        ...


@runtime_checkable
class SupportsAsyncLookup(Protocol):
    """A lookup table source that can wait for several answers at once."""

    def async_lookup(self, columns: tuple[str, ...]) -> AsyncLookupFunction:
        """As `LookupTableSource.lookup`."""
        ...


@runtime_checkable
class SupportsParallelism(Protocol):
    """A table source or sink whose declaration says how many subtasks it has."""

    @property
    def parallelism(self) -> int | None:
        """How many; None as the job has."""
        ...


def push_filters(source: SupportsFilter, filters: Sequence[Filter]) -> PushedFilters:
    """What a source does with filters, none of which is lost.

    Raises:
        InternalError: the source neither accepts one nor leaves it.
    """
    pushed = source.with_filters(filters)
    for each in filters:
        if each not in pushed.accepted and each not in pushed.remaining:
            raise InternalError(
                f"{type(source).__name__} lost the filter {each}; expected it among those that it accepts or leaves; report it "
                "to the author of the connector"
            )
    return pushed


def table_source(table: TableDescription) -> TableSource:
    """The source of a table, made by the factory that its option `connector` names.

    Raises:
        ConfigError: the connector is unknown or cannot be read, an option is unknown, missing or wrong, or the source does not
            have a metadata column.
    """
    factory = _factory(table)
    if not isinstance(factory, SupportsTableSource):
        raise _one_way(table, "read", "sink")
    made = factory.source(table, _options(factory, table))
    readable = made.readable_metadata if isinstance(made, SupportsReadingMetadata) else {}
    _check_metadata(table, table.schema.metadata, readable, "reads")
    return made


def table_sink(table: TableDescription) -> TableSink:
    """The sink of a table, made by the factory that its option `connector` names.

    Raises:
        ConfigError: the connector is unknown or cannot be written, an option is unknown, missing or wrong, or the sink does not
            have a metadata column or partitions.
    """
    factory = _factory(table)
    if not isinstance(factory, SupportsTableSink):
        raise _one_way(table, "written", "source")
    made = factory.sink(table, _options(factory, table))
    if table.partitioned_by and not isinstance(made, SupportsPartitioning):
        raise ConfigError(
            f"table {table.name} is partitioned by {', '.join(table.partitioned_by)}; connector {_name(table)!r} writes no "
            "partitions; remove PARTITIONED BY"
        )
    writable = made.writable_metadata if isinstance(made, SupportsWritingMetadata) else {}
    written = [column for column in table.schema.metadata if not column.virtual]
    _check_metadata(table, written, writable, "writes")
    return made


def _name(table: TableDescription) -> str:
    try:
        return table.options[CONNECTOR]
    except KeyError:
        known = ", ".join(registry.names("tidegate.tables"))
        raise ConfigError(
            f"table {table.name} has no option {CONNECTOR!r}; expected one of {known}"
        ) from None


def _factory(table: TableDescription) -> TableFactory:
    factory: TableFactory = registry.load("tidegate.tables", _name(table))()
    return factory


def _options(factory: TableFactory, table: TableDescription) -> Any:
    """The options of a table that its factory declares."""
    own = {key: value for key, value in table.options.items() if key != CONNECTOR}
    return load(factory.options, Layer(f"the options of table {table.name}", own))


def _one_way(table: TableDescription, done: str, only: str) -> ConfigError:
    usable = ", ".join(_with(SupportsTableSource if done == "read" else SupportsTableSink))
    return ConfigError(
        f"table {table.name} cannot be {done}: connector {_name(table)!r} is a {only} only; expected one of {usable}"
    )


def _with(ability: type) -> Iterator[str]:
    """The factories that have an ability; those that cannot be loaded are left out."""
    for name in registry.names("tidegate.tables"):
        try:
            factory = registry.load("tidegate.tables", name)
        except ConfigError:
            continue
        if isinstance(factory(), ability):
            yield name


def _check_metadata(
    table: TableDescription, columns: Sequence[MetadataColumn], known: Mapping[str, LogicalType], verb: str
) -> None:
    for column in columns:
        check_column(
            column.metadata_key,
            tuple(known),
            f"the metadata that connector {_name(table)!r} {verb}, but column {column.name!r} of table {table.name} is of it",
        )
