"""Timers of a key in event time (key untyped, type typed, register past, fire again).

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
        ctx.timer_service().register_event_time_timer(-1)
        ctx.timer_service().register_event_time_timer(0)
        yield value[0], "seen", value[1], value[2]

    def on_timer(self, timestamp, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), str(ctx.time_domain()), self.total.value() or 0, timestamp
        self.total.update((self.total.value() or 0) - 3)
        if self.total.value() > 0:
            ctx.timer_service().register_event_time_timer(timestamp + 1000)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("cem", 5, 400),
        ("ann", 6, 3700),
        ("cem", 2, 8400),
        ("bob", 5, 9200),
        ("cem", 6, 9900),
        ("ann", 8, 10800),
        ("ann", 7, 11000),
        ("cem", 7, 11900),
        ("cem", 6, 14100),
        ("bob", 8, 15600),
        ("bob", 7, 16400),
        ("bob", 4, 21100),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .process(Timed(), Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
