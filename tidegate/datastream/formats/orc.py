"""ORC, under PyFlink's module name."""

from tidegate.connectors.files.row_types import OrcBulkWriters as OrcBulkWriters

__all__ = ["OrcBulkWriters"]
