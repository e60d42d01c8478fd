"""Timers of a key in event time (key typed, type untyped, register past, fire told).

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
        yield ctx.get_current_key(), "fired", self.total.value() or 0, timestamp
        self.total.clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("bob", 1, 0),
        ("cem", 6, 4000),
        ("cem", 4, 8000),
        ("bob", 2, 8900),
        ("bob", 8, 10400),
        ("cem", 4, 11900),
        ("cem", 2, 13400),
        ("bob", 1, 13400),
        ("bob", 8, 13400),
        ("bob", 5, 13800),
        ("cem", 5, 15300),
        ("bob", 2, 15300),
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
