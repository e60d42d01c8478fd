"""Two streams, connected (type row, limits typed, how keyed).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedCoProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))
        self.limit = runtime_context.get_state(ValueStateDescriptor("limit", Types.INT()))

    def process_element1(self, value, ctx: "KeyedCoProcessFunction.Context"):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(1000)

    def process_element2(self, value, ctx: "KeyedCoProcessFunction.Context"):
        self.limit.update(value[1])
        ctx.timer_service().register_event_time_timer(2000)

    def on_timer(self, timestamp, ctx: "KeyedCoProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), timestamp, self.total.value(), self.limit.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [("ann", 3), ("cem", 3), ("ann", 4), ("bob", 6), ("cem", 1), ("ann", 3), ("cem", 9), ("ann", 1)],
    Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.INT()]),
)
limits = env.from_collection(
    [("ann", 20), ("bob", 10), ("dan", 5)], Types.TUPLE([Types.STRING(), Types.INT()])
)
result = pairs.connect(limits).key_by(lambda pair: pair[0], lambda limit: limit[0]).process(Both())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
