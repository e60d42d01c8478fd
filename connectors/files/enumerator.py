"""Finds the files of a source and cuts them into parts."""

from __future__ import annotations

from pathlib import Path

from tidegate.connectors.base import ListEnumerator
from tidegate.connectors.files.split import FileSplit, parts
from tidegate.connectors.spi import EnumeratorContext
from tidegate.errors import ConfigError

__all__ = ["FileEnumerator"]


class FileEnumerator(ListEnumerator[FileSplit]):
    """Looks once, at the first start: what is added or appended later is not read."""

    def __init__(
        self, context: EnumeratorContext[FileSplit], path: Path, part_bytes: int, restored: bytes | None
    ) -> None:
        super().__init__(context, (), FileSplit, restored)
        self._path = path
        self._part_bytes = part_bytes
        self._restored = restored is not None

    def start(self) -> None:
        """List the files, unless a checkpoint did.

        Raises:
            ConfigError: there is nothing at the path.
        """
        if not self._restored:
            self.give_back(
                [
                    part
                    for file in _files(self._path)
                    for part in parts(str(file), size=file.stat().st_size, most=self._part_bytes)
                ]
            )


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = (each for each in sorted(path.iterdir()) if not each.name.startswith((".", "_")))
        return [each for each in found if each.is_file()]
    if not path.is_file():
        raise ConfigError(f"text file {str(path)!r} does not exist")
    return [path]
