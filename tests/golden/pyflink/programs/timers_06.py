"""Timers of a key in event time (key untyped, type typed, register rounded, fire times).

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
        yield ctx.get_current_key(), "fired", ctx.timestamp(), timestamp - ctx.timestamp()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("ann", 9, 400),
        ("bob", 7, 3700),
        ("cem", 3, 4400),
        ("cem", 8, 8400),
        ("bob", 2, 9300),
        ("ann", 2, 10200),
        ("cem", 1, 10600),
        ("cem", 1, 12100),
        ("bob", 2, 12900),
        ("ann", 4, 15100),
        ("bob", 7, 15500),
        ("bob", 8, 17000),
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
