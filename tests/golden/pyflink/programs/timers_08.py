"""Timers of a key in event time (key typed, type typed, register later, fire again).

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
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)
        yield value[0], "seen", self.total.value(), ctx.timestamp()

    def on_timer(self, timestamp, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), str(ctx.time_domain()), self.total.value() or 0, timestamp
        self.total.update((self.total.value() or 0) - 3)
        if self.total.value() > 0:
            ctx.timer_service().register_event_time_timer(timestamp + 1000)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("bob", 7, 3300),
        ("bob", 3, 4000),
        ("bob", 2, 7300),
        ("cem", 3, 9500),
        ("bob", 9, 10400),
        ("ann", 5, 9700),
        ("cem", 7, 14400),
        ("ann", 2, 15200),
        ("bob", 1, 17400),
        ("ann", 6, 17400),
        ("ann", 5, 21400),
        ("cem", 4, 21800),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0], key_type=Types.STRING())
    .process(Timed(), Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
