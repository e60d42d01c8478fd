"""State reader: the state of a checkpoint as tables, without the program that wrote it.

Example:
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tidegate.common import Types
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> root = TemporaryDirectory()
    >>> settings = {"execution.target": "inline", "pipeline.progress": "off", "state.checkpoints.dir": root.name}
    >>> env = StreamExecutionEnvironment.get_execution_environment(settings)
    >>> pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    >>> words = env.from_collection([("tea", 1), ("tea", 2)], pair).key_by(lambda pair: pair[0])
    >>> _ = words.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("sums").filter(lambda _: False).print()
    >>> _ = env.execute("sums")
    >>> *_, newest = sorted(Path(root.name).glob("*/chk-*"))
    >>> with StateReader(newest) as reader:
    ...     (state,) = reader.operators()["sums"]
    ...     reader.table("sums", state, key="tea")["value"].to_pylist()
    [{'f0': 'tea', 'f1': 3}]
    >>> root.cleanup()
"""

from __future__ import annotations

from tidegate.runtime.checkpoint.reader import StateReader as StateReader

__all__ = ["StateReader"]
