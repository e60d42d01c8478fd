"""The files of `tidegate new connector NAME`: a package with a source, a sink and their conformance tests."""

from __future__ import annotations

from typing import Final

__all__ = ["CONNECTOR"]

_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "tidegate-@name@"
version = "0.1.0"
description = "Reads and writes @Name@ in tidegate programs"
readme = "README.md"
requires-python = ">=3.11"
classifiers = ["Typing :: Typed"]
dependencies = ["tidegate>=@version@"]

[project.optional-dependencies]
test = ["tidegate[testing]"]

[project.entry-points."tidegate.connectors"]
"@name@.source" = "tidegate_@name@:@Name@Source"
"@name@.sink" = "tidegate_@name@:@name@_sink"

[tool.setuptools]
packages = ["tidegate_@name@"]

[tool.setuptools.package-data]
"tidegate_@name@" = ["py.typed"]
"""

_README = """\
# tidegate-@name@

@Name@ for [tidegate](https://pypi.org/project/tidegate/): a source and a sink.

```
pip install tidegate-@name@
```

```python
from tidegate_@name@ import @Name@Source, @name@_sink

from tidegate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(@Name@Source(count=100), source_name="records").sink_to(@name@_sink("out"))
env.execute("copy")
```

| | |
|---|---|
| source | bounded; every record once, whatever restarts; splits can be cut in advance |
| sink | exactly once, because it recognises the token of what it was given before |

The conformance kit of tidegate proves it: `pip install -e '.[test]'`, then `pytest`.
"""

_INIT = '''\
"""@Name@ for tidegate: a source and a sink."""

from tidegate_@name@.sink import @name@_sink as @name@_sink
from tidegate_@name@.source import @Name@Source as @Name@Source

__all__ = ["@Name@Source", "@name@_sink"]
'''

_SOURCE = '''\
"""Reads numbered records in two parts; put what reads your system in the place of `read`."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.connectors.base import ListEnumerator, RangeReader, RangeSplit
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source
from tidegate.ids import SplitId


def read(numbers: range) -> list[str]:
    """The records with these numbers, the same ones each time."""
    return [f"record {number}" for number in numbers]


@dataclass(frozen=True)
class @Name@Source(Source[RangeSplit]):
    """A description: picklable, and without I/O when it is made."""

    count: int

    split_type = RangeSplit
    bounded = True

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> ListEnumerator[RangeSplit]:
        """Which parts there are; `restored` holds those that were not handed out."""
        middle = self.count // 2
        splits = [RangeSplit(SplitId("low"), 0, middle), RangeSplit(SplitId("high"), middle, self.count)]
        return ListEnumerator(context, splits, RangeSplit, restored)

    def open_reader(self, context: ReaderContext) -> RangeReader:
        """Reads the parts one subtask was given."""
        return RangeReader(read)

    def bound(self, split: RangeSplit, records: int) -> tuple[RangeSplit, RangeSplit | None]:
        """Cut a part in advance."""
        return split.cut(records)
'''

_SINK = '''\
"""Writes a file for each token; put what writes to your system in the place of `Deliver`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.connectors.base import WriteAheadSink


@dataclass(frozen=True)
class Deliver:
    """Makes records visible in one act, once per token."""

    directory: Path

    def __call__(self, token: str, records: list[Any]) -> bool:
        """False if they were under that token already."""
        self.directory.mkdir(parents=True, exist_ok=True)
        final = self.directory / f"{hashlib.sha256(token.encode()).hexdigest()}.json"
        if final.exists():
            return False
        unfinished = final.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(records))
        unfinished.rename(final)
        return True


def @name@_sink(directory: str | Path) -> WriteAheadSink:
    """A sink that writes exactly once, because `Deliver` recognises its tokens."""
    return WriteAheadSink(Deliver(Path(directory)))
'''

_TESTS = '''\
"""Both pass the kit; the oracles do not use the connector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tidegate.testing.sink import CommitClauses, CrashClauses, SinkSuite, SinkTarget
from tidegate.testing.source import RangedSourceSuite, SourceTarget

from tidegate_@name@ import @Name@Source, @name@_sink


class TestSource(RangedSourceSuite):
    @pytest.fixture
    def target(self) -> SourceTarget:
        return SourceTarget(@Name@Source(8), expected=[f"record {number}" for number in range(8)])


class TestSink(CommitClauses, CrashClauses, SinkSuite):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        def seen() -> list[Any]:
            return [record for file in tmp_path.glob("*.json") for record in json.loads(file.read_text())]

        return SinkTarget(@name@_sink(tmp_path), seen)
'''

CONNECTOR: Final = {
    "pyproject.toml": _PROJECT,
    "README.md": _README,
    ".gitignore": "__pycache__/\n*.egg-info/\nbuild/\ndist/\n",
    "tidegate_@name@/py.typed": "",
    "tidegate_@name@/__init__.py": _INIT,
    "tidegate_@name@/source.py": _SOURCE,
    "tidegate_@name@/sink.py": _SINK,
    "tests/test_conformance.py": _TESTS,
}
"""Its files by path; `@name@`, `@Name@` and `@version@` are filled in, in paths, too."""
