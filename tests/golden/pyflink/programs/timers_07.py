"""Timers of a key in event time (key untyped, type untyped, register moved, fire times).

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
        ctx.timer_service().delete_event_time_timer(5000)
        ctx.timer_service().register_event_time_timer(5000)
        if value[1] > 6:
            ctx.timer_service().delete_event_time_timer(5000)
            ctx.timer_service().register_event_time_timer(value[2] + 1)

    def on_timer(self, timestamp, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), "fired", ctx.timestamp(), timestamp - ctx.timestamp()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("bob", 8, 400),
        ("cem", 9, 1900),
        ("cem", 8, 2300),
        ("bob", 5, 3100),
        ("ann", 5, 3800),
        ("cem", 5, 4200),
        ("bob", 2, 3900),
        ("bob", 9, 5400),
        ("ann", 1, 10100),
        ("ann", 3, 10500),
        ("ann", 1, 12000),
        ("bob", 4, 13500),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = payments.assign_timestamps_and_watermarks(times).key_by(lambda payment: payment[0]).process(Timed())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
