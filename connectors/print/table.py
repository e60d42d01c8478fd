"""Table factory `print`: the changes of a table on standard output, one a line, such as `+I(1,a)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate.changelog import ChangelogMode
from tidegate.connectors.print.sink import PrintSink
from tidegate.connectors.table_spi import TableDescription, TableSink
from tidegate.options import check_ranges, option

__all__ = ["PrintTable", "PrintTableOptions", "PrintTableSink"]


@dataclass(frozen=True)
class PrintTableOptions:
    """Options of a table."""

    identifier: str = option("print-identifier", "", "comes first on every line")
    standard_error: bool = option("standard-error", False, "whether lines go to the error output")
    parallelism: int | None = option(
        "sink.parallelism", None, "how many writers there are; as the job if unset"
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class PrintTableSink(TableSink):
    """Prints whatever a query produces."""

    prefix: str
    stderr: bool
    parallelism: int | None

    def changelog_mode(self, produced: ChangelogMode) -> ChangelogMode:
        """Every kind that the query produces."""
        return produced

    def sink(self) -> PrintSink:
        """Prints the kind of each row."""
        return PrintSink(self.prefix, changes=True, stderr=self.stderr)


class PrintTable:
    """Makes table sinks that print."""

    options: ClassVar[type[Any]] = PrintTableOptions

    def sink(self, table: TableDescription, options: PrintTableOptions) -> PrintTableSink:
        """A sink for rows of any schema."""
        return PrintTableSink(options.identifier, options.standard_error, options.parallelism)
