"""Files of a sink as objects of an S3 bucket, at `s3://bucket/path?endpoint=...&region=...`.

A hidden file is written to a temporary file of this machine and uploaded when it ends. A commit copies it to its final
name within the server. An object that is there already is recognised by its size and by the checksum it was uploaded
with, so a repeat does nothing; no commit depends on a condition, which copies do not heed. A claim does: on a server
without conditions, of two first claims at the same moment the later one wins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import IO
from urllib.parse import unquote, urlsplit

import xxhash

from tidegate.backends.storage.s3 import S3Storage, url_options
from tidegate.connectors.base._client import Objects
from tidegate.connectors.base.output_place import HIDDEN, PendingFile
from tidegate.errors import TidegateError, UnavailableError
from tidegate.faults import point
from tidegate.twophase.spi import CommitAnswer

__all__ = ["BucketCommitterStore", "BucketWriterStore"]

_CHUNK = 1 << 20


class _Bucket:
    """A path of a bucket, and the hidden folder in it.

    Args:
        url: Bucket, path and options.
        owner: The name of the hidden folder below `HIDDEN`.

    Raises:
        ConfigError: the URL makes no sense.
    """

    def __init__(self, url: str, owner: str) -> None:
        S3Storage(url)  # refuses other URLs than those of a bucket
        parts = urlsplit(url)
        options = url_options(url)
        path = unquote(parts.path).strip("/")
        self._root = f"{path}/" if path else ""
        self._hidden = f"{self._root}{HIDDEN}/"
        self._owner = owner
        self._url = f"s3://{parts.netloc}/{self._root}"
        self._objects = Objects(parts.netloc, options.endpoint, options.region)

    def path(self, name: str) -> str:
        """Below `HIDDEN`."""
        return f"{self._owner}/{name}"

    def display_name(self, name: str) -> str:
        """Its URL."""
        return self._url + name

    def translate_error(self, error: OSError) -> TidegateError:
        """Only temporary files are of this machine."""
        return UnavailableError(
            f"output to {self._url}: cannot write a temporary file ({error.strerror or error}); free space in "
            f"{tempfile.gettempdir()} or set TMPDIR; the epoch is written again"
        )


class BucketWriterStore(_Bucket):
    """Objects that are not visible yet. Not kept open over checkpoints: each would upload all of it again."""

    is_appendable = False

    def make(self) -> None:
        """Folders need not be made; that the bucket is there is found out."""
        next(self._objects.names(self._hidden + self.path("")), None)

    def check(self, folder: str) -> None:
        """Any key will do."""

    def create(self, name: str) -> IO[bytes]:
        """A temporary file of this machine."""
        return tempfile.TemporaryFile()

    def end(self, name: str, file: IO[bytes]) -> None:
        """Upload it, and close."""
        self.hold(name, file)
        file.close()

    def hold(self, name: str, file: IO[bytes]) -> None:
        """Upload the file."""
        file.seek(0)
        checksum = xxhash.xxh3_64()
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
        file.seek(0)
        point("sink.before-flush")
        self._objects.upload(self._hidden + self.path(name), file, checksum.hexdigest())
        point("sink.after-flush")

    def drop(self, name: str) -> None:
        """Delete it."""
        self._objects.delete([self._hidden + self.path(name)])

    def sync(self) -> None:
        """What was uploaded is durable."""

    def seal(self, name: str, pending: str, *, keep: bool) -> str:
        """It waits under the name it has: another one would be another copy."""
        return name

    def read(self, path: str) -> IO[bytes]:
        """A copy on this machine."""
        return self._objects.download(self._hidden + path)

    def is_visible(self, name: str) -> bool:
        """Whether there is an object."""
        return self._objects.look(self._root + name) is not None


class BucketCommitterStore(_Bucket):
    """Visible objects."""

    def publish(self, file: PendingFile) -> CommitAnswer:
        """Look, and copy if there is nothing; who looks at the same time copies the same."""
        pending, final = self._hidden + self.path(file.pending), self._root + file.final
        found = self._objects.look(final)
        if found is None:
            if not self._objects.copy(pending, final):
                return CommitAnswer.UNKNOWN
            answer = CommitAnswer.COMMITTED
        elif found == (file.size, file.checksum):
            answer = CommitAnswer.ALREADY_COMMITTED
        else:
            return CommitAnswer.UNKNOWN
        self.remove((file.pending, *file.also))
        return answer

    def hidden(self) -> Sequence[str]:
        """What is listed below the hidden folder."""
        return list(self._objects.names(self._hidden + self.path("")))

    def remove(self, names: Iterable[str]) -> None:
        """Delete them."""
        self._objects.delete(self._hidden + self.path(name) for name in names)

    def note(self, name: str) -> bytes | None:
        """What is in the object."""
        try:
            with self._objects.download(self._hidden + self.path(name)) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write_first_note(self, name: str, text: bytes) -> bytes:
        """Upload it if it does not exist; the content that is read back is valid."""
        self._objects.upload_first(self._hidden + self.path(name), text)
        found = self.note(name)
        if found is None:
            self.write_note(name, text)
            found = self.note(name)
        return text if found is None else found

    def write_note(self, name: str, text: bytes) -> None:
        """Upload it, which is one act."""
        self._objects.upload(self._hidden + self.path(name), BytesIO(text), "")

    def mark(self, name: str) -> None:
        """Upload nothing under its name."""
        self._objects.upload(self._root + name, BytesIO(), "")
