"""Hybrid source: several sources in sequence, such as files and then a topic.

Guarantee: that of the sources; each begins when every record of the one before is read, at any parallelism and over
restarts. Order between sources is kept within a subtask, and across subtasks as far as theirs is.

Example:
    >>> from tidegate.connectors.generator import GeneratorSource, NumberSequenceSource
    >>> HybridSource((NumberSequenceSource(1, 10), NumberSequenceSource(11, 20))).bounded
    True

    A source that begins where the one before ended is made by a function:

    >>> live = lambda end: GeneratorSource(lambda number: end + number, count=None)
    >>> HybridSource((GeneratorSource(abs, count=10), live)).bounded
    False
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tidegate.changelog import ChangelogMode
from tidegate.components import OptionsOf, with_options
from tidegate.connectors.hybrid.enumerator import HybridEnumerator
from tidegate.connectors.hybrid.reader import HybridReader
from tidegate.connectors.hybrid.split import HybridSplit
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source, SupportsChangelog
from tidegate.errors import ConfigError, UserCodeError

if TYPE_CHECKING:
    from tidegate.connectors.hybrid.builder import HybridSourceBuilder

__all__ = ["HybridSource", "Stage"]

Stage: TypeAlias = Source[Any] | Callable[[Any], Source[Any]]
"""A source, or what makes one of where the source before it ended; called again after a restart with the same."""


@dataclass(frozen=True)
class HybridSource(Source[HybridSplit]):
    """Several sources as one.

    Args:
        stages: The sources in their order. All but the last are bounded. A function in the place of one, but the
            first, gets the `end_position` of the enumerator before it: of files the time of the newest in
            milliseconds, of a generator its count.

    Raises:
        ConfigError: there is no source, or an unbounded one is followed by another.
    """

    stages: tuple[Stage, ...]
    bounded: bool = field(init=False)
    continuous: bool = field(init=False)  # type: ignore[misc]  # here it is of an instance: that of its stages
    replayable: bool = field(init=False)  # type: ignore[misc]
    changelog_mode: ChangelogMode = field(init=False, repr=False)
    """The changes of all stages together; what one emits that a function makes is not known before it is read."""

    split_type = HybridSplit

    def __post_init__(self) -> None:
        if not self.stages or not isinstance(self.stages[0], Source):
            raise ConfigError(
                f"first stage of the hybrid source is {self.stages[0] if self.stages else 'nothing'!r}; expected "
                "a source"
            )
        *_, last = self.stages
        for number, stage in enumerate(self.stages[:-1]):
            if isinstance(stage, Source):
                _check_ends(number, stage)
        known = [stage for stage in self.stages if isinstance(stage, Source)]
        object.__setattr__(self, "bounded", isinstance(last, Source) and last.bounded)
        object.__setattr__(self, "continuous", any(source.continuous for source in known))
        object.__setattr__(self, "replayable", all(source.replayable for source in known))
        modes = (source.changelog_mode for source in known if isinstance(source, SupportsChangelog))
        object.__setattr__(self, "changelog_mode", reduce(or_, modes, ChangelogMode.insert_only()))

    def with_options(self, options_of: OptionsOf) -> HybridSource:
        """The same source, with settings for its stages; not for one that a function makes."""
        return HybridSource(tuple(with_options(stage, options_of) for stage in self.stages))

    @staticmethod
    def builder(first_source: Source[Any]) -> HybridSourceBuilder:
        """Begin with a source, as in PyFlink."""
        from tidegate.connectors.hybrid.builder import HybridSourceBuilder  # it needs this class

        return HybridSourceBuilder((first_source,))

    def open_enumerator(
        self, context: EnumeratorContext[HybridSplit], restored: bytes | None
    ) -> HybridEnumerator:
        """Deals the splits of one stage after the other."""
        return HybridEnumerator(context, self.source_of, len(self.stages), restored)

    def open_reader(self, context: ReaderContext) -> HybridReader:
        """Reads the stage of its splits."""
        return HybridReader(context, self.source_of)

    def source_of(self, number: int, end: bytes | None) -> Source[Any]:
        """The source of a stage, made of where the one before ended if it is a function.

        Raises:
            ConfigError: what was made has to end and does not.
            UserCodeError: the function failed.
        """
        stage = self.stages[number]
        if isinstance(stage, Source):
            return stage
        try:
            source = stage(None if end is None else msgspec.msgpack.decode(end))
        except Exception as error:
            raise UserCodeError(
                f"hybrid source: the function for stage {number} failed: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(source, Source):
            raise ConfigError(
                f"hybrid source: the function for stage {number} returned {type(source).__name__}; expected a "
                "source"
            )
        if number < len(self.stages) - 1:
            _check_ends(number, source)
        return source


def _check_ends(number: int, source: Source[Any]) -> None:
    if not source.bounded:
        raise ConfigError(
            f"hybrid source: stage {number} ({type(source).__name__}) is unbounded, so no later stage would be "
            "read; bound it, or put it last"
        )
