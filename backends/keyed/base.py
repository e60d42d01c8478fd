"""Background upload of a base: it is cut at a barrier and uploaded while later checkpoints proceed without it.

No checkpoint refers to it before it is complete, so whether the upload succeeds or fails, nothing that is decided depends
on it. What it builds on is the base that every checkpoint until then refers to, whose files therefore stay. What an
upload leaves behind that no checkpoint will ever refer to is told to `lost`, for the coordinator to delete.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Executor, Future
from pathlib import Path

from tidegate import faults
from tidegate.backends.keyed.segment import Segment, encode_segment
from tidegate.backends.spi import BaseHandle, Chunk, Cut, KeyedHandle, SnapshotFiles, StoredChunk
from tidegate.errors import UnavailableError

__all__ = ["NewBase", "Published"]

Published = tuple[BaseHandle, Chunk]
"""A base and the segment that comes with it, which says what the base holds."""


class NewBase:
    """A cut and what is published with it.

    `builds_on` is what the checkpoint it was cut with builds on: files of its base need not be uploaded again.
    """

    def __init__(
        self,
        cut: Cut,
        first: Segment,
        files: SnapshotFiles,
        builds_on: KeyedHandle,
        *,
        lost: deque[str],
    ) -> None:
        self.builds_on = builds_on
        self._cut = cut
        self._first = first
        self._files = _Files(files)
        self._lost = lost
        self._published: Published | None = None
        self._upload: Future[Published] | None = None
        self._lock = threading.Lock()
        self._needed = 0
        self._abandoned = False

    def begin(self, uploads: Executor) -> None:
        """Publish it in the background."""
        self._upload = uploads.submit(self._publish)

    @property
    def begun(self) -> bool:
        """Whether it is published in the background."""
        return self._upload is not None

    @property
    def ready(self) -> bool:
        """Whether it is published, so that the next checkpoint can refer to it."""
        return self._published is not None

    @property
    def failed(self) -> bool:
        """Whether the storage rejected it.

        Raises:
            TidegateError: something else went wrong, which another attempt cannot mend.
        """
        if self._upload is None or not self._upload.done():
            return False
        error = self._upload.exception()
        if error is not None and not isinstance(error, UnavailableError):
            raise error
        return error is not None

    def not_covered(self, segments: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
        """The segments of a later checkpoint that the base does not cover."""
        # By identity: two small segments may have equal bytes, and what lies between them counts.
        return tuple(new for new in segments if not any(new is old for old in self.builds_on.segments))

    def became(self, base: BaseHandle | None) -> bool:
        """Whether `base` is this one, published."""
        return self._published is not None and self._published[0] is base

    def result(self) -> Published:
        """Wait until it is published, or publish it now if no other thread does; raises as `Cut.publish` does."""
        return self._published or (self._upload.result() if self._upload is not None else self._publish())

    def add_reference(self) -> None:
        """A pending checkpoint refers to it."""
        with self._lock:
            self._needed += 1

    def drop_reference(self) -> None:
        """That checkpoint is completed or cancelled; from any thread."""
        with self._lock:
            self._needed -= 1
            over = self._abandoned and not self._needed
        if over:
            self.stop()

    def abandon(self) -> None:
        """No further checkpoint will refer to it: it ends with the last one that does. Idempotent."""
        with self._lock:
            self._abandoned = True
            over = not self._needed
        if over:
            self.stop()

    def stop(self) -> None:
        """Cancel the upload, even if a thread waits for it, and report the files it leaves. Idempotent."""
        self._files.closed = True
        if self._upload is None or self._upload.cancel():
            self._cut.release()
        if self._upload is None:
            self._give_up()
        else:
            self._upload.add_done_callback(lambda _: self._give_up())

    def _publish(self) -> Published:
        try:
            faults.point("base.before-upload")
            base = self._cut.publish(self._files, self.builds_on.base)
            published = base, self._files.store(encode_segment(self._first))
            faults.point("base.after-upload")
        except BaseException:
            self._give_up()
            raise
        finally:
            self._cut.release()
        self._published = published
        return published

    def _give_up(self) -> None:
        while self._files.names:
            self._lost.append(self._files.names.pop())


class _Files:
    """Records the names of stored files, and rejects further ones after it is closed."""

    def __init__(self, files: SnapshotFiles) -> None:
        self._files = files
        self.names: list[str] = []
        self.closed = False

    def store(self, data: bytes | Path) -> Chunk:
        if self.closed:
            raise UnavailableError("the base is no longer needed")
        chunk = self._files.store(data)
        if isinstance(chunk, StoredChunk):
            self.names.append(chunk.name)
        return chunk

    def fetch(self, chunk: Chunk) -> bytes:
        return self._files.fetch(chunk)
