"""What a function learns of its surroundings (stamps none, how keyed, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Told(KeyedProcessFunction):
    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        yield value[0], ctx.timestamp(), ctx.get_current_key()
        ctx.timer_service().register_event_time_timer(99)

    def on_timer(self, timestamp, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), timestamp, ctx.timestamp(), ctx.timer_service().current_watermark() >= 99


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [("cem", 9, 400), ("ann", 5, 400), ("ann", 3, 1300), ("bob", 9, 1000), ("bob", 9, 2600)],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = payments.key_by(lambda payment: payment[0]).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
