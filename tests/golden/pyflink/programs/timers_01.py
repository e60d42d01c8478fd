"""Timers of a key in event time (key untyped, type untyped, register later, fire times).

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
        yield ctx.get_current_key(), "fired", ctx.timestamp(), timestamp - ctx.timestamp()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("bob", 8, 900),
        ("bob", 5, 1300),
        ("bob", 2, 1700),
        ("bob", 7, 1700),
        ("cem", 9, 2600),
        ("ann", 3, 3000),
        ("ann", 7, 4500),
        ("ann", 1, 4900),
        ("ann", 7, 4600),
        ("cem", 4, 4600),
        ("cem", 8, 6100),
        ("bob", 8, 7700),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = payments.assign_timestamps_and_watermarks(times).key_by(lambda payment: payment[0]).process(Timed())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
