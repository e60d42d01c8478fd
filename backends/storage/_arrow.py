"""Client of pyarrow's file systems: blobs of a checkpoint storage on any of them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow.fs

from tidegate.backends.spi import Blobs
from tidegate.clock import new_id
from tidegate.errors import ConfigError, StateCorruptError, UnavailableError

__all__ = ["ArrowBlobs", "RenamedBlobs", "hadoop_file_system", "s3_file_system"]

_BLOCK: Final = 1024 * 1024
_TEMPORARY: Final = ".tmp-"


class ArrowBlobs(Blobs):
    """Files below `root` of an object store, where a file appears whole when its writer closes it."""

    def __init__(self, system: pyarrow.fs.FileSystem, root: str, url: str) -> None:
        self._system = system
        self._root = root
        self._url = url

    def put(self, name: str, source: bytes | Path) -> None:
        path = f"{self._root}/{name}"
        with self._available(name):
            try:
                with (
                    BytesIO(source) if isinstance(source, bytes) else source.open("rb") as data,
                    self._system.open_output_stream(path) as target,
                ):
                    shutil.copyfileobj(data, target, _BLOCK)
            except OSError:
                # Leaving the block closed the file, and with it what was written so far appeared.
                with contextlib.suppress(OSError):
                    self._system.delete_file(path)
                raise

    def open(self, name: str) -> BinaryIO:
        # Read here, since a file that was opened may still be one that the storage does not give.
        with self._available(name):
            try:
                with self._system.open_input_file(f"{self._root}/{name}") as file:
                    return BytesIO(file.read())
            except FileNotFoundError as error:
                raise StateCorruptError(
                    f"file {self._url}/{name} does not exist; restore an older checkpoint"
                ) from error

    def list(self, prefix: str) -> list[str]:
        folder = f"{self._root}/{prefix.rpartition('/')[0]}".rstrip("/")
        selector = pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True)
        with self._available(prefix):
            found = self._system.get_file_info(selector)
        names = [info.path[len(self._root) + 1 :] for info in found if info.type == pyarrow.fs.FileType.File]
        return sorted(name for name in names if name.startswith(prefix))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with self._available(name), contextlib.suppress(FileNotFoundError):
                self._system.delete_file(f"{self._root}/{name}")

    @contextlib.contextmanager
    def _available(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnavailableError(
                f"checkpoint storage cannot read or write {self._url}/{name}: {error}; check its address, the "
                "network and the permissions"
            ) from error


class RenamedBlobs(ArrowBlobs):
    """Files of a file system where incomplete files are visible: a file is renamed when it is complete."""

    def put(self, name: str, source: bytes | Path) -> None:
        temporary, path = f"{self._root}/{name}{_TEMPORARY}{new_id()}", f"{self._root}/{name}"
        with self._available(name):
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
        super().put(temporary[len(self._root) + 1 :], source)
        with self._available(name):
            # Not every file system replaces a file on rename; a replaced file belongs to no decision.
            if self._system.get_file_info(path).type == pyarrow.fs.FileType.File:
                self._system.delete_file(path)
            self._system.move(temporary, path)

    def list(self, prefix: str) -> list[str]:
        return [name for name in super().list(prefix) if _TEMPORARY not in name]


def hadoop_file_system(url: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of an HDFS URL, and the path.

    Raises:
        ConfigError: libhdfs cannot be loaded or does not reach the name node.
    """
    try:
        system, path = pyarrow.fs.FileSystem.from_uri(url)
    except OSError as error:
        raise ConfigError(
            f"{url} cannot be opened: {str(error).splitlines()[0]}; expected Java and Hadoop where libhdfs looks for "
            "them; set JAVA_HOME, HADOOP_HOME and CLASSPATH"
        ) from error
    return system, path


def s3_file_system(endpoint: str | None, region: str) -> pyarrow.fs.FileSystem:
    """S3 at Amazon, or at an endpoint `http(s)://host:port`."""
    scheme, _, host = (endpoint or "https://").partition("://")
    return pyarrow.fs.S3FileSystem(
        region=region,
        scheme=scheme,
        endpoint_override=host or None,
        # One request for a small file, and none to look whether its folder exists.
        allow_delayed_open=True,
    )
