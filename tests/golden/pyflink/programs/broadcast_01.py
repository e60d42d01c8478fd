"""Rules for all subtasks (value pickled, how plain).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

rules_of = MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


class Ruled(BroadcastProcessFunction):
    def process_element(self, value, ctx: "BroadcastProcessFunction.ReadOnlyContext"):
        ctx.get_broadcast_state(rules_of)
        yield f"{value[0]}, {value[1]}"

    def process_broadcast_element(self, value, ctx: "BroadcastProcessFunction.Context"):
        rules = ctx.get_broadcast_state(rules_of)
        before = rules.get(value[0])
        if value[0] == "all":
            for name in list(rules.keys()):
                rules.remove(name)
        rules[value[0]] = value[1]
        yield f"rule, {value[0]}, {before}, {sorted(rules.items())}, {rules.is_empty()}, {'bob' in rules}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [("ann", 6), ("cem", 5), ("cem", 7), ("ann", 9), ("cem", 6), ("bob", 4), ("cem", 2), ("ann", 9)],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
rules = env.from_collection([("ann", 3), ("bob", 5), ("ann", 4), ("all", 0)])
result = pairs.connect(rules.broadcast(rules_of)).process(Ruled(), Types.STRING())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
