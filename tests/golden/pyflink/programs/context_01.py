"""What a function learns of its surroundings (stamps assigned, how keyed, mode batch).

Compared by key.
"""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment


class Told(KeyedProcessFunction):
    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        yield value[0], ctx.timestamp(), ctx.get_current_key()
        ctx.timer_service().register_event_time_timer(99)

    def on_timer(self, timestamp, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), timestamp, ctx.timestamp(), ctx.timer_service().current_watermark() >= 99


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
payments = env.from_collection(
    [("cem", 1, 1500), ("ann", 9, 1500), ("ann", 4, 1500), ("bob", 2, 1500), ("cem", 4, 5500)],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = payments.assign_timestamps_and_watermarks(times).key_by(lambda payment: payment[0]).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
