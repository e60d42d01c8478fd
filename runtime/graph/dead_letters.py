"""Dead letters of sources: records that a source cannot read go to a side output and a sink that the source names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tidegate.connectors.spi import SupportsDeadLetters
from tidegate.runtime.graph.transformations import SIDE_OUTPUT, Input, Transformation
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.operators.sink import SINK
from tidegate.runtime.stream.tags import OutputTag

__all__ = ["dead_letter_steps"]

_TAG: Final = OutputTag("dead letters")
_NAME: Final = "dead letters"


def dead_letter_steps(steps: Iterable[Transformation]) -> Iterator[Transformation]:
    """The sink steps of all sources that name a sink for dead letters."""
    for source in (step for step in steps if step.kind.role is Role.SOURCE):
        if isinstance(source.payload, SupportsDeadLetters) and source.payload.dead_letters is not None:
            side = Transformation(SIDE_OUTPUT, _NAME, _TAG, (Input(source),))
            sink = Transformation(SINK, _NAME, source.payload.dead_letters, (Input(side),))
            sink.parallelism, sink.max_parallelism = source.parallelism, source.max_parallelism
            sink.usual_parallelism = source.usual_parallelism
            sink.uid = None if source.uid is None else f"{source.uid}-dead-letters"
            yield from (side, sink)
