"""Timers of a key in event time (key typed, type untyped, register rounded, fire again).

Compared by key.
"""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Timed(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(value[2] // 5000 * 5000 + 5000)

    def on_timer(self, timestamp, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), str(ctx.time_domain()), self.total.value() or 0, timestamp
        self.total.update((self.total.value() or 0) - 3)
        if self.total.value() > 0:
            ctx.timer_service().register_event_time_timer(timestamp + 1000)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("cem", 7, 0),
        ("bob", 2, 400),
        ("ann", 4, 4400),
        ("bob", 5, 8400),
        ("cem", 2, 7700),
        ("ann", 3, 7700),
        ("cem", 7, 8600),
        ("bob", 9, 9700),
        ("cem", 2, 11200),
        ("cem", 7, 12000),
        ("bob", 9, 13100),
        ("cem", 9, 13900),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0], key_type=Types.STRING())
    .process(Timed())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
