"""Rules for all subtasks (value pickled, how read).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

rules_of = MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


class Ruled(BroadcastProcessFunction):
    def process_element(self, value, ctx: "BroadcastProcessFunction.ReadOnlyContext"):
        rules = ctx.get_broadcast_state(rules_of)
        yield value[0], value[1], rules.get("nobody")

    def process_broadcast_element(self, value, ctx: "BroadcastProcessFunction.Context"):
        ctx.get_broadcast_state(rules_of).put(value[0], value[1])
        yield "rule", dict(ctx.get_broadcast_state(rules_of).items())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [("cem", 7), ("bob", 3), ("ann", 2), ("bob", 1), ("cem", 6), ("bob", 3), ("ann", 1), ("ann", 6)],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
rules = env.from_collection([("ann", 3), ("bob", 5), ("ann", 4), ("all", 0)])
result = pairs.connect(rules.broadcast(rules_of)).process(Ruled())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
