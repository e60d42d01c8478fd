"""What a connector owes the framework: sources that can go back, sinks that commit in two phases.

A source is a *description* that opens one *enumerator* (on the coordinator: which parts are there, who reads which)
and one *reader* per subtask. A sink is a description that opens one *writer* per subtask and, if its output must
appear exactly once, a *committer*. Descriptions are frozen, picklable and do no I/O when made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from tidegate.changelog import ChangelogMode, RowKinds
from tidegate.clock import Clock
from tidegate.elements import Batch, Idle, Watermark
from tidegate.ids import CheckpointId, OperatorUid, PipelineId, SplitId, Subtask
from tidegate.twophase.spi import (
    Committable,
    Committer,
    CommitterContext,
    GlobalCommitter,
    ProgramContext,
    SinkWriter,
    WriterContext,
)
from tidegate.types import TypeInformation

__all__ = [
    "Delivery",
    "DeliveryGuarantee",
    "EnumeratorContext",
    "Extent",
    "Finding",
    "Finished",
    "JobFacts",
    "NotYet",
    "OnBranch",
    "Part",
    "Poll",
    "ReaderContext",
    "Remaining",
    "RowSink",
    "RowSource",
    "Sink",
    "Source",
    "SourceReader",
    "Split",
    "SplitEnumerator",
    "SupportsAudit",
    "SupportsBacklog",
    "SupportsBranch",
    "SupportsChangelog",
    "SupportsCommit",
    "SupportsDeadLetters",
    "SupportsDiscovery",
    "SupportsEvents",
    "SupportsGlobalCommit",
    "SupportsHandover",
    "SupportsLeftOut",
    "SupportsPausing",
    "SupportsPending",
    "SupportsPreCommit",
    "SupportsPreflight",
    "SupportsRanges",
    "SupportsReaderEvents",
    "SupportsRowKinds",
    "SupportsSettled",
    "SupportsTakeOver",
    "Unreadable",
]


class Split(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="v", tag=1):
    """A part of a source with the position to read from; a checkpoint stores it whole.

    Subclasses add where it starts and, if known, where it stops. Their `v` tag is the version of that encoding. What
    has other fields, such as a split of another source that had the same uid, is refused at a restore.
    """

    id: SplitId


S = TypeVar("S", bound=Split)
S_contra = TypeVar("S_contra", bound=Split, contravariant=True)


@dataclass(frozen=True, slots=True)
class NotYet:
    """Nothing to read now; worth asking again in `after_ms` milliseconds, or when new splits arrive if None.

    A duration and not a time of day: a machine's wall clock may be set back, and a reader must not wait for it. A reader
    that keeps deadlines of its own keeps them by `ReaderContext.clock.monotonic()`.
    """

    after_ms: int | None = None


class Finished:
    """Nothing will ever come again: all splits are read and no more are promised."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What could not be read, as records for the source's dead letters, and beside it what could be."""

    letters: Batch
    batch: Batch | None


Poll: TypeAlias = Batch | Unreadable | Watermark | Idle | NotYet | Finished
"""Records, what a reader that knows says of event time, or why there is neither."""


class EnumeratorContext(Protocol[S_contra]):
    """How an enumerator reaches its readers."""

    @property
    def parallelism(self) -> int:
        """How many readers there are."""
        ...

    @property
    def owner(self) -> str:
        """Identity of the source among those of all pipelines: pipeline, checkpoint storage and operator.

        The same after every restart. Empty where no pipeline runs: then nothing may be created outside.
        """
        ...

    def assign(self, reader: int, splits: Sequence[S_contra]) -> None:
        """Give splits to a reader; from here on they are the reader's to snapshot."""
        ...

    def no_more_splits(self, reader: int) -> None:
        """Promise a reader that what it has is all it gets."""
        ...

    def send_event(self, reader: int, event: bytes) -> None:
        """Tell a reader, which `SupportsEvents`, something of the source's own; it arrives in order with its splits.

        Raises:
            ConfigError: readers do not stay open here; only sources that are `continuous` may send.
        """
        ...


class SplitEnumerator(ABC, Generic[S]):
    """Finds splits and hands them out. Lives on the coordinator and is called by its thread alone.

    At every moment a split is in exactly one place: with the enumerator, or with one reader.
    """

    def start(self) -> None:
        """Look for splits; called once, before the first request. May block."""

    @abstractmethod
    def request(self, reader: int) -> None:
        """A reader asks for work; answer through the context now or later.

        Called whenever a reader runs dry, and only if it has received all that it was assigned so far.
        """

    @abstractmethod
    def give_back(self, splits: Sequence[S]) -> None:
        """Splits that no reader holds any more, with the positions they were read to.

        Called on restore, before any request, with all splits of all readers of the checkpoint.
        """

    @abstractmethod
    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        """What must not be forgotten besides the readers' splits: at least every split not handed out.

        Called when a checkpoint is triggered, before any barrier is sent. Must not block.
        """

    def close(self) -> None:
        """Release resources; called once."""


@runtime_checkable
class SupportsDiscovery(Protocol):
    """An enumerator that looks for more splits while the job runs."""

    @property
    def discovery_interval_ms(self) -> int | None:
        """How often to look; None never."""
        ...

    def discover(self) -> Any:
        """Look. Called by a thread of its own after `start`, never twice at once; may block, changes nothing.

        Raises:
            UnavailableError: the system did not answer; the failure is counted and shown, and it is asked again at the next
                time.
        """
        ...

    def discovered(self, found: Any) -> None:
        """Take what a look found. Called by the coordinator's thread; must not block."""
        ...


@runtime_checkable
class SupportsLeftOut(Protocol):
    """An enumerator that leaves out what it may not read and looks for it again, instead of failing."""

    def left_out(self) -> Collection[str]:
        """The names of what the newest look left out; shown as a failing look. Called after `start` and `discovered`."""
        ...


@runtime_checkable
class SupportsPending(Protocol):
    """An enumerator that can name what it holds, so that every checkpoint can prove that no split is in two places."""

    def pending(self) -> Collection[SplitId]:
        """The splits that no reader was given. Called with each `snapshot`, by the same thread; must not block."""
        ...


@runtime_checkable
class SupportsReaderEvents(Protocol):
    """An enumerator whose readers tell it things of the source's own."""

    def reader_event(self, reader: int, event: bytes) -> None:
        """A reader sent this. Called by the coordinator's thread; must not block. No checkpoint holds events."""
        ...


@runtime_checkable
class SupportsHandover(Protocol):
    """An enumerator of a bounded source that reports its end position, so that another source can continue from there."""

    def end_position(self) -> Any:
        """Numbers, texts, lists or dictionaries of them. Called once, after everything is read; must not block."""
        ...


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """Who the reader is."""

    uid: OperatorUid
    subtask: Subtask
    parallelism: int
    clock: Clock
    wake: Callable[[], None] = lambda: None
    """Tells, from any thread, that polling is worth it again."""
    program: ProgramContext | None = None
    """For functions of the user; None where no program runs."""
    send_event: Callable[[bytes], None] = lambda event: None
    """Tells the enumerator, which `SupportsReaderEvents`, something of the source's own; by the subtask's thread."""
    pipeline: PipelineId = PipelineId("")
    """Whose it is; empty where no program runs."""
    brief: bool = False
    """Whether it lives for one epoch, and is closed within a split: limit prefetching, since prefetched records are then lost."""


class SourceReader(ABC, Generic[S]):
    """Reads the splits of one subtask. Called by the subtask's thread alone."""

    @abstractmethod
    def add_splits(self, splits: Sequence[S]) -> None:
        """Take splits and read them from the positions they carry. Must not block."""

    @abstractmethod
    def no_more_splits(self) -> None:
        """What was added is all there will be. Must not block."""

    @abstractmethod
    def poll(self, limit: int) -> Poll:
        """The next records, at most `limit`, all of one split; never blocks longer than a poll timeout.

        Called again and again. The batch is the caller's. After a crash, reading continues at the positions of the
        last decided checkpoint.

        Raises:
            UnavailableError: the system did not answer; the subtask fails and is restored.
            RecordError: a record cannot be read; handled as `on_error` says.
        """

    @abstractmethod
    def snapshot(self, checkpoint: CheckpointId) -> list[S]:
        """Every unfinished split with the position after the last polled record. Must not block."""

    def close(self) -> None:
        """Release resources; called once, also after an error."""


class Source(ABC, Generic[S]):
    """Describes where records come from.

    Example:
        >>> from tidegate.connectors.collection import CollectionSource
        >>> CollectionSource([1, 2, 3]).bounded
        True
    """

    split_type: ClassVar[type[Split]]
    bounded: bool
    continuous: ClassVar[bool] = False
    """Whether readers must stay open between checkpoints; refused on executors that open readers for each epoch."""
    replayable: ClassVar[bool] = True
    """Whether what was read since a checkpoint can be read again."""

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of its records if known; the program may declare another one."""
        return None

    @abstractmethod
    def open_enumerator(self, context: EnumeratorContext[S], restored: bytes | None) -> SplitEnumerator[S]:
        """The enumerator, going on from the snapshot `restored` if there is one. No I/O before `start`."""

    @abstractmethod
    def open_reader(self, context: ReaderContext) -> SourceReader[S]:
        """A reader without splits. May connect."""


@runtime_checkable
class SupportsChangelog(Protocol):
    """A source, or what a step runs, that states which changes it emits; other sources emit insertions only.

    Their kinds are in `Batch.kinds`.
    """

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The kinds that its records may have. Pure; asked when a program is planned."""
        ...


@runtime_checkable
class SupportsRanges(Protocol[S]):
    """A source whose splits can be bounded in advance, so that a part of one can be read again exactly."""

    def bound(self, split: S, records: int) -> tuple[S, S | None]:
        """At most the next `records` of a split, and the rest if there is any. Pure."""
        ...


@runtime_checkable
class SupportsBacklog(Protocol[S_contra]):
    """A source of splits without an end that can tell how much of them is there."""

    def backlog(self, splits: Sequence[S_contra]) -> list[int]:
        """How many records each split has now, counted as `bound` counts them. May connect.

        Raises:
            UnavailableError: the system did not answer.
        """
        ...


@runtime_checkable
class SupportsSettled(Protocol):
    """A reader that tells the outside how far the pipeline is, such as a consumer group's offsets."""

    def settled(self, checkpoint: CheckpointId) -> None:
        """All output up to this checkpoint is visible. Must not block; a lost call does no harm."""
        ...


@runtime_checkable
class SupportsEvents(Protocol):
    """A reader whose enumerator tells it things of the source's own, such as to wait."""

    def event(self, event: bytes) -> None:
        """The enumerator sent this. Called by the subtask's thread; must not block. No checkpoint holds events."""
        ...


@runtime_checkable
class SupportsPausing(Protocol):
    """A reader that tells its splits apart: each has a watermark of its own, and none is read too far ahead.

    Every batch it answers has an origin. Called by the subtask's thread alone.
    """

    def unfinished_splits(self) -> Collection[SplitId]:
        """The splits that are not read to their end. Must not block."""
        ...

    def pause(self, splits: Collection[SplitId]) -> None:
        """Do not poll these splits until called again, but all others. Must not block."""
        ...


Delivery = Literal["exactly-once", "at-least-once", "none"]


class DeliveryGuarantee(Enum):
    """The same under PyFlink's name."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


class Sink(ABC):
    """Describes where records go."""

    delivery: Delivery
    """What a reader of the output sees after failures."""

    @abstractmethod
    def open_writer(self, context: WriterContext) -> SinkWriter:
        """A writer; opened after everything earlier is settled or aborted. May connect."""


@runtime_checkable
class SupportsRowKinds(Protocol):
    """A sink that states which changes it can write; others read `Batch.kinds` and take any."""

    @property
    def takes(self) -> RowKinds:
        """Which changes it can write. Pure; asked when a program is planned, so that others are refused then."""
        ...


@runtime_checkable
class SupportsCommit(Protocol):
    """A sink whose writers return committables."""

    def open_committer(self, context: CommitterContext) -> Committer:
        """A committer, in any process. May connect."""
        ...


@runtime_checkable
class SupportsDeadLetters(Protocol):
    """A source that passes on unreadable records. Its readers return `Unreadable` only if `dead_letters` is a sink."""

    @property
    def dead_letters(self) -> Sink | None:
        """The sink of unreadable records, committed with the same checkpoint as the others; None if there is none."""
        ...


OnBranch = Literal["refuse", "append"]


@runtime_checkable
class SupportsPreCommit(Protocol):
    """A sink that looks at all that its writers prepared for a checkpoint before that is decided, and may refuse."""

    def pre_commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        """Check what is going to be visible, or make it ready; nothing may become visible, the checkpoint may still fail.

        Called in the coordinator's process, for one checkpoint after the other, when all writers have prepared; not for
        a checkpoint without committables of this sink. May block.

        Raises:
            UnavailableError: the checkpoint is given up, and its records are part of the next.
        """
        ...


@runtime_checkable
class SupportsGlobalCommit(Protocol):
    """A sink with something left to do once all its writers' work of a checkpoint is visible, such as a marker file."""

    def open_global_committer(self, context: CommitterContext) -> GlobalCommitter:
        """A global committer, in the coordinator's process. May connect."""
        ...


@runtime_checkable
class SupportsBranch(Protocol):
    """A sink that says what happens to output committed after the checkpoint a branch goes back to."""

    @property
    def on_branch(self) -> OnBranch:
        """`refuse`: do not start; `append`: leave it and write the replayed records again."""
        ...


@runtime_checkable
class SupportsTakeOver(Protocol):
    """A sink that claims names outside, so that two pipelines do not end each other's work.

    Its committer `SupportsClaim`. `ClaimingSinkSuite` proves both.
    """

    def taking_over(self) -> Sink:
        """The same sink, whose committer replaces the claims of other pipelines and removes their work. Pure."""
        ...


@runtime_checkable
class RowSource(Protocol):
    """A connector whose source is created from text options and emits rows; the entry point `<connector>.rows`."""

    @property
    def columns(self) -> str | None:
        """The columns of its rows in SQL's words, such as `key BINARY, value BINARY`; None if the user says them."""
        ...

    def source(self, options: Mapping[str, str], *, bounded: bool) -> Source[Any]:
        """A source of dictionaries, tuples or single values; a bounded one ends with what is there at its start.

        Raises:
            ConfigError: an option is unknown, missing or wrong.
        """
        ...


@runtime_checkable
class RowSink(Protocol):
    """A connector whose sink is made of text options and takes dictionaries; the same entry point."""

    def sink(self, options: Mapping[str, str], lane: str, columns: Sequence[str]) -> Sink:
        """A sink for rows of these columns, whose unfinished work never meets that of another lane.

        Raises:
            ConfigError: an option or a column is unknown, missing or wrong.
        """
        ...


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is known of a job before its start, and the uid of the operator that is asked.

    `restart_ms` is the longest that its restarts in a row can take by their pauses alone, None if there is no end.
    """

    pipeline: PipelineId
    interval_ms: int
    timeout_ms: int
    restart_ms: int | None
    uid: OperatorUid


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was looked at before a start: `ok`, a `warning`, or a `problem` that it would fail with."""

    subject: str
    verdict: Literal["ok", "warning", "problem"]
    found: str
    remedy: str = ""


@runtime_checkable
class SupportsPreflight(Protocol):
    """A source or sink that can tell before a start what would go wrong."""

    def preflight(self, job: JobFacts) -> Iterable[Finding]:
        """What was looked at. May connect; must leave nothing behind, and raise only a `TidegateError`, which is a problem."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """The records of `split` from position `start` on that lie in front of `end`; a reader may read on, if it likes.

    `name` and `unit` are for people: `orders:3` and `offset`.
    """

    split: Split
    start: int
    end: int
    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a checkpoint says is still to be read: the splits of all readers, and the enumerator's snapshot."""

    splits: tuple[bytes, ...]
    coordinator: bytes


@dataclass(frozen=True, slots=True)
class Extent:
    """What a source holds at a moment, in parts that end.

    `later` is what a checkpoint says is still to be read; `hidden` is what is not visible yet, such as an open transaction,
    in words.
    """

    parts: tuple[Part, ...]
    later: tuple[Part, ...] = ()
    hidden: tuple[str, ...] = ()


@runtime_checkable
class SupportsAudit(Protocol):
    """A source, itself one that ends or not, whose records at a moment can be compared with others.

    What was written by a sink is read by such a source as well, without any help of the sink.
    """

    def extent(self, remaining: Remaining | None = None) -> Extent:
        """The records that exist now. May connect, and block.

        Raises:
            ConfigError: there is no such thing, or the checkpoint is of something else.
            UnavailableError: the system did not answer.
        """
        ...

    def only(self, part: Part, position: int) -> Split:
        """A split with the record at a position of a part, and perhaps some behind it. Pure."""
        ...
