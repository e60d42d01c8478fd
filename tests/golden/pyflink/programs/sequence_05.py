"""Sources, limits and projections (of words).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
lines = env.from_collection(["tide", "state", "gate tide", "flink state", "tide", "time"])
counted = (
    lines.flat_map(lambda line: line.split())
    .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    .key_by(lambda pair: pair[0])
    .reduce(lambda left, right: (left[0], left[1] + right[1]))
)
counted.print()
env.execute("words")
