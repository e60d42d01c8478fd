"""Iterations: records of a feedback edge return to an earlier step.

Deprecated in Flink, and here: they work and warn. Records that are on their way back are in no checkpoint, so a
program with iterations takes none but the last one, when nothing is on its way any more.

Example:
    >>> import warnings
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> with warnings.catch_warnings(action="ignore"):
    ...     iteration = env.from_collection([3, 1]).iterate(50)
    >>> body = iteration.map(lambda n: n - 1)
    >>> _ = iteration.close_with(body.filter(lambda n: n > 0))
    >>> list(body.filter(lambda n: n <= 0).execute_and_collect())
    [0, 0]
"""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.runtime.graph.transformations import FEEDBACK, Transformation
from tidegate.runtime.stream.datastream import DataStream, instance_of

__all__ = ["IterativeStream"]


class IterativeStream(DataStream):
    """What came in and what comes back; made by `DataStream.iterate`, used until closed.

    Watermarks are those of what came in; a record that comes back may be late. At the end of the input the
    iteration ends when no record has come back for the time given to `iterate`. Event time ends then, and a
    record that comes back even later fails the job.

    What comes back waits for its turn, first in memory and then on the local disk, because a cycle of full channels
    would wait for itself. So each round should send back less than it gets: what multiplies for ever fills the disk.
    """

    _closed = False

    def close_with(self, feedback_stream: DataStream) -> DataStream:
        """Send the records of a stream made from this one back to its beginning; answers that stream."""
        feedback = instance_of("close_with", feedback_stream, DataStream)
        if self._closed:
            raise ConfigError(
                "the iteration is already closed; close it once, with a union(...) of the streams"
            )
        if not _stands_behind(self._transformation, feedback._transformation):
            raise ConfigError(
                f"{feedback.get_name()!r} is not derived from the iteration that it closes; "
                "close it with a stream derived from it"
            )
        self._closed = True
        self._env.add_sink(
            Transformation(
                FEEDBACK, "IterationSink", self._transformation, (feedback._input,), feedback.get_type()
            )
        )
        return feedback_stream


def _stands_behind(head: Transformation, step: Transformation) -> bool:
    return step is head or any(_stands_behind(head, each.transformation) for each in step.inputs)
