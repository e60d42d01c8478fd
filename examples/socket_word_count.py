"""Words from a socket, counted over the last two seconds, every second.

Try it with `nc -lk 9000` in another terminal; the stream ends when the other side closes the connection.
"""
# mypy: allow-untyped-defs, allow-untyped-calls

import argparse
import sys
from dataclasses import dataclass

from tidegate.common import Duration
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.window import SlidingProcessingTimeWindows


@dataclass
class WordWithCount:
    word: str
    count: int

    def __str__(self):
        return f"WordWithCount{{word='{self.word}', count={self.count}}}"


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", type=int, help="where the text comes from, on this machine; default: 9000")
port = parser.parse_args().port
if port is None:
    print("no --port was given, using the default 9000", file=sys.stderr)
    port = 9000

env = StreamExecutionEnvironment.get_execution_environment()
text = env.socket_text_stream("localhost", port, "\n")
words = text.flat_map(lambda line: [WordWithCount(word, 1) for word in line.split()])
windows = words.key_by(lambda word: word.word).window(
    SlidingProcessingTimeWindows.of(Duration.of_seconds(2), Duration.of_seconds(1))
)
windows.sum("count").print().set_parallelism(1)
env.execute("streaming word count")
