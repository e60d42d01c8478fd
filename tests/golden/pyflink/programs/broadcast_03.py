"""Rules for all subtasks (value int, how keyed).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedBroadcastProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

rules_of = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Ruled(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value, ctx: "KeyedBroadcastProcessFunction.ReadOnlyContext"):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(10)

    def process_broadcast_element(self, value, ctx: "KeyedBroadcastProcessFunction.Context"):
        ctx.get_broadcast_state(rules_of).put(value[0], value[1])

    def on_timer(self, timestamp, ctx: "KeyedBroadcastProcessFunction.OnTimerContext"):
        rules = ctx.get_broadcast_state(rules_of)
        key = ctx.get_current_key()
        rule = rules.get(key) if rules.contains(key) else None
        yield key, self.total.value(), rule, sorted(rules.keys()), sorted(rules.items())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [("bob", 5), ("bob", 6), ("bob", 6), ("ann", 3), ("bob", 6), ("cem", 4), ("bob", 4), ("bob", 3)],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
rules = env.from_collection([("ann", 3), ("bob", 5), ("ann", 4), ("all", 0)])
result = (
    pairs.key_by(lambda pair: pair[0], key_type=Types.STRING())
    .connect(rules.broadcast(rules_of))
    .process(Ruled())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
