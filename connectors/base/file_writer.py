"""Writes the records of one subtask to the files of a place.

Guarantee: exactly once, together with `FileCommitter`. A file is worked on while it is hidden. When it ends, by the
rolling policy or with its checkpoint, it waits for the decision under a name of its own; a file of lines may stay open
over checkpoints, which then remember how far it is valid. Files that are to be merged wait hidden until there are
enough of them, and one file is seen instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tidegate.arrow_rows import ArrowRows
from tidegate.connectors.base.dead_letters import DeadLetterLines, OnError, RejectedRecords
from tidegate.connectors.base.output_place import PendingFile
from tidegate.connectors.base.part_file import (
    BulkFormat,
    Compression,
    FileEncoder,
    HeldFile,
    PartFile,
    SupportsArrowRows,
    suffix_of,
)
from tidegate.connectors.base.pending_files import Announced, HeldFiles, PendingFiles, held_files
from tidegate.connectors.base.places import writer_store
from tidegate.connectors.base.rolling import Compaction, RollingPolicy
from tidegate.elements import MAX_WATERMARK, Batch
from tidegate.errors import RecordError, TidegateError, UnavailableError
from tidegate.ids import CheckpointId
from tidegate.row import values_with_kinds
from tidegate.twophase.naming import MAX_BYTES, OutputName, WorkName, tag_of
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["Buckets", "FileWriter", "Shape"]

_LAST = CheckpointId(2**63 - 1)
_LETTERS = DeadLetterLines()


class Buckets(Protocol):
    """Which folder below the directory records go to; picklable."""

    def deal(self, batch: Batch, now_ms: int, watermark: int | None) -> Mapping[str, Sequence[Any]]:
        """What is written of a batch, by folder; the directory itself is the empty text.

        Raises:
            RecordError: it cannot be told for a record.
        """
        ...


@dataclass(frozen=True)
class Shape:
    """When files end, which folders they are in, and what becomes of their bytes."""

    rolling: RollingPolicy = RollingPolicy()
    buckets: Buckets | None = None
    compression: Compression | None = None
    compaction: Compaction | None = None
    announces: bool = False
    """Whether each checkpoint's work says which folders get files, and how far event time is."""
    on_error: OnError = "fail"
    dead_letters: str | None = None
    """The folder of letters; no bucket, so it begins as none may: with `_`."""


class FileWriter(SinkWriter):
    """Writes one subtask's records to hidden files.

    Args:
        directory: Where the output goes; made if it is not there.
        context: Who the writer is.
        encoder: How records become bytes.
        prefix: What output files are called first.
        suffix: What their names end with; None takes what the encoder and the compression say.
        shape: When files end, and where they are.

    Raises:
        ConfigError: the directory is a file or not writable, or a name cannot be built.
        StateCorruptError: a file that was being written has vanished.
        UnavailableError: the directory cannot be made.
    """

    def __init__(
        self,
        directory: str | Path,
        context: WriterContext,
        encoder: FileEncoder | BulkFormat,
        prefix: str,
        suffix: str | None = None,
        shape: Shape = Shape(),
    ) -> None:
        self._place = writer_store(directory, context.pipeline, context.uid)
        self._context = context
        self._encoder = encoder
        self._prefix = prefix
        self._suffix = suffix_of(encoder, shape.compression) if suffix is None else suffix
        letters = shape.on_error == "dead_letter"
        self._refusals = None if shape.on_error == "fail" else RejectedRecords(letters, context)
        self._shape = shape
        self._each_checkpoint = shape.rolling.on_checkpoint or not self._place.is_appendable
        self._ending = False
        self._watermark: int | None = None
        self._broken: TidegateError | None = None
        self._numbers = count()
        self._open: dict[str, PartFile] = {}
        self._ended: list[PartFile] = []
        self._groups: list[list[PartFile]] = []
        """Files that wait for being merged, those of each future file together."""
        self._final_name(_LAST, 0)
        self._work_name(_LAST, 0)
        self._place.make()
        self._restore()

    def write(self, batch: Batch) -> None:
        """Append a batch to the open files; a batch with a record that cannot be written leaves no trace."""
        if not batch.values:
            return
        now_ms = self._context.clock.now_ms()
        chunks = self._chunks(batch, now_ms)
        self._guard()
        for bucket in {bucket for bucket, _, _ in chunks} - self._open.keys():
            self._place.check(bucket)
        try:
            self._roll(now_ms)
            for bucket, chunk, records in chunks:
                if bucket not in self._open:
                    self._open[bucket] = self._begin(bucket, now_ms)
                self._open[bucket].write(chunk, records, now_ms)
            self._roll(now_ms)
        except (OSError, UnavailableError) as error:
            raise self._break(error) from error

    write_arrow = write

    def _chunks(self, batch: Batch, now_ms: int) -> list[tuple[str, Any, int]]:
        """What to append to the file of which folder; halves of a batch tell which of its records is refused."""
        try:
            return self._encoded(batch, now_ms)
        except RecordError as error:
            if self._refusals is None:
                raise
            if len(batch) == 1:
                letter, folder = self._refusals.letter(batch.values[0], error), self._shape.dead_letters
                return [] if letter is None or folder is None else [(folder, _LETTERS.encode([letter]), 1)]
        half = len(batch) // 2
        parts = batch.part(slice(half)), batch.part(slice(half, None))
        return [chunk for part in parts for chunk in self._chunks(part, now_ms)]

    def _encoded(self, batch: Batch, now_ms: int) -> list[tuple[str, Any, int]]:
        batch = batch.with_values(values_with_kinds(batch, f"file sink {self._context.uid!r}"))
        buckets = self._shape.buckets
        dealt = {"": batch.values} if buckets is None else buckets.deal(batch, now_ms, self._watermark)
        chunks = [(bucket, self._encode(values), len(values)) for bucket, values in dealt.items()]
        for bucket in dealt.keys() - self._open.keys():
            _check_bucket(bucket)
        return chunks

    def _encode(self, values: Sequence[Any]) -> Any:
        if not isinstance(values, ArrowRows):
            return self._encoder.encode(list(values))
        encoder = self._encoder
        chunk = encoder.encode_arrow(values) if isinstance(encoder, SupportsArrowRows) else None
        return encoder.encode(values.rows()) if chunk is None else chunk

    def watermark(self, timestamp: int) -> None:
        """Note the time; at the end of all input every file ends with the next checkpoint."""
        self._watermark = timestamp
        self._ending = self._ending or timestamp == MAX_WATERMARK

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        """Make all that was written durable, and name the files that ended."""
        self._guard()
        try:
            self._roll(self._context.clock.now_ms(), everything=self._each_checkpoint or self._ending)
            self._merge()
            named = count()
            files = [self._sealed(part, checkpoint, named) for part in self._ended]
            for part in self._unfinished():
                self._name(part, checkpoint, named)
                part.hold()
        except (OSError, UnavailableError) as error:
            raise self._break(error) from error
        self._ended = []
        if not files and not self._shape.announces:
            return None
        shown = [self._place.display_name(file.final) for file in files] or [self._place.display_name("")]
        describe = shown[0] if len(shown) == 1 else f"{shown[0]} and {len(shown) - 1} more"
        work = PendingFiles(
            tuple(files), self._announced(checkpoint, files) if self._shape.announces else None
        )
        return msgspec.msgpack.encode(work), describe, sum(file.records for file in files)

    def snapshot(self, checkpoint: CheckpointId) -> bytes | None:
        """The valid length of files that are continued."""
        held = tuple(part.remembered() for part in self._unfinished())
        return msgspec.msgpack.encode(HeldFiles(held)) if held else None

    def close(self) -> None:
        """Close open files; what was not prepared is left for `abort_except`."""
        for part in (*self._open.values(), *self._ended):
            # Buffered data need not reach the disk: it will never be committed.
            with suppress(OSError):
                part.close()

    def _restore(self) -> None:
        """Go on with the files that the writers before were working on."""
        try:
            for held in held_files(self._context.uid, self._context.restored):
                self._resume(held)
        except OSError as error:
            self.close()
            raise self._place.translate_error(error) from error
        except TidegateError:
            self.close()
            raise

    def _resume(self, held: HeldFile) -> None:
        part = self._new(held.bucket, self._context.clock.now_ms())
        with ExitStack() as undo:
            undo.callback(part.close)
            if not part.resume(held):
                self._place.drop(part.name)
                return
            if held.checkpoints or held.bucket in self._open or self._each_checkpoint:
                part.end()
                self._retire(part)
                return
            part.begin(self._encoder_of(held.bucket), self._shape.compression)
            self._open[held.bucket] = part
            undo.pop_all()

    def _new(self, bucket: str, now_ms: int) -> PartFile:
        number = next(self._numbers)
        return PartFile(self._place, self._work_name(None, number), bucket, now_ms, number)

    def _begin(self, bucket: str, now_ms: int) -> PartFile:
        part = self._new(bucket, now_ms)
        part.begin(self._encoder_of(bucket), self._shape.compression)
        return part

    def _roll(self, now_ms: int, *, everything: bool = False) -> None:
        """End the files that are due."""
        ends = self._shape.rolling.ends
        for bucket, part in list(self._open.items()):
            part.note_time(now_ms)
            if everything or ends(
                part.size, begun_ms=part.begun_ms, written_ms=part.written_ms, now_ms=now_ms
            ):
                part.end()
                del self._open[bucket]
                self._retire(part)

    def _retire(self, part: PartFile) -> None:
        """Put a file that ended where it waits for its commit, or for others to be merged with."""
        if self._shape.compaction is None:
            self._ended.append(part)
            return
        for group in self._groups:
            # One that was restored knows already which file it is going to be in.
            if group[0].bucket == part.bucket and part.final in (None, group[0].final):
                group.append(part)
                return
        self._groups.append([part])

    def _merge(self) -> None:
        """Make one file of each group that is large or old enough."""
        compaction = self._shape.compaction
        for group in list(self._groups):
            size = sum(part.size for part in group)
            if compaction is None or self._ending or compaction.is_due(size, group[0].checkpoints + 1):
                self._groups.remove(group)
                self._ended.append(self._merged(group, compaction.delimiter if compaction else b""))

    def _merged(self, group: list[PartFile], delimiter: bytes) -> PartFile:
        if len(group) == 1:
            return group[0]
        merged = self._new(group[0].bucket, group[0].begun_ms)
        merged.final = group[0].final
        merged.merge(group, self._encoder_of(merged.bucket), delimiter)
        merged.end()
        return merged

    def _unfinished(self) -> Iterator[PartFile]:
        yield from self._open.values()
        for group in self._groups:
            yield from group

    def _sealed(self, part: PartFile, checkpoint: CheckpointId, named: Iterator[int]) -> PendingFile:
        final = self._name(part, checkpoint, named)
        pending = self._place.seal(part.name, self._work_name(checkpoint, part.number), keep=part.held)
        also = (part.name, *part.also) if part.held else part.also
        return PendingFile(pending, final, part.size, part.checksum, part.records, also)

    def _name(self, part: PartFile, checkpoint: CheckpointId, named: Iterator[int]) -> str:
        """The name a file is going to have: settled at the first checkpoint that knows of it, never changed."""
        if part.final is None:
            group = next((group for group in self._groups if part in group), [part])
            name = group[0].final or self._in_bucket(
                part.bucket, self._final_name(checkpoint, next(named), part.bucket)
            )
            part.final = name
        return part.final

    def _announced(self, checkpoint: CheckpointId, files: list[PendingFile]) -> Announced:
        who = self._context
        folders = {file.final.rpartition("/")[0] for file in files} - {self._shape.dead_letters}
        busy = {part.bucket for part in self._unfinished()} - {self._shape.dead_letters}
        return Announced(
            who.subtask.index,
            who.parallelism,
            who.branch,
            checkpoint,
            self._watermark,
            tuple(sorted(folders)),
            tuple(sorted(busy)),
        )

    def _in_bucket(self, bucket: str, name: str) -> str:
        return f"{bucket}/{name}" if bucket else name

    def _work_name(self, checkpoint: CheckpointId | None, number: int) -> str:
        who = self._context
        name = WorkName(who.lineage, who.branch, who.subtask.index, checkpoint, who.attempt, number, who.term)
        return name.build()

    def _encoder_of(self, bucket: str) -> FileEncoder | BulkFormat:
        return _LETTERS if _holds_letters(bucket) else self._encoder

    def _final_name(self, checkpoint: CheckpointId, number: int, bucket: str = "") -> str:
        who = self._context
        suffix = suffix_of(_LETTERS, self._shape.compression) if _holds_letters(bucket) else self._suffix
        tag = tag_of(who.pipeline, who.uid)
        name = OutputName(
            self._prefix, who.lineage, who.branch, tag, who.subtask.index, checkpoint, suffix, number
        )
        return name.build()

    def _break(self, error: OSError | UnavailableError) -> TidegateError:
        # After a failed write or fsync the content of a file is unknown, so a second attempt is refused.
        self._broken = self._place.translate_error(error) if isinstance(error, OSError) else error
        return self._broken

    def _guard(self) -> None:
        if self._broken is not None:
            raise self._broken


def _check_bucket(bucket: str) -> None:
    if not all(map(_is_folder, bucket.split("/") if bucket else ())):
        raise RecordError(
            f"a record belongs to bucket {bucket[:80]!r}, which is not a folder that readers list; expected names "
            f"of at most {MAX_BYTES} bytes, not empty and not beginning with '.' or '_', with '/' between them"
        )


def _holds_letters(bucket: str) -> bool:
    return bucket.startswith("_")


def _is_folder(name: str) -> bool:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= MAX_BYTES and name[0] not in "._" and "\0" not in name
