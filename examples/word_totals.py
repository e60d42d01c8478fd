"""A batch job: how often each word occurs, one line per word instead of one per step on the way.

`python word_totals.py FILE` counts the words of a file. Without the line that sets the mode it is a stream, and prints
`('pond', 1)` before `('pond', 2)`.
"""

from __future__ import annotations

import sys

from tidegate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

HAIKU = ("An old silent pond", "A frog jumps into the pond", "Splash! Silence again")


def main(file: str | None) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    lines = env.read_text_file(file) if file else env.from_collection(HAIKU)
    words = lines.flat_map(lambda line: line.lower().replace("!", "").split())
    totals = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
    totals.print()
    env.execute("word totals")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
