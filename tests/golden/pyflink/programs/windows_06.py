"""Windows of a keyed stream in event time (key typed, assigner sliding-offset, how state).

Compared by key.
"""

from pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import SlidingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Numbered(ProcessWindowFunction):
    def open(self, runtime_context: RuntimeContext):
        self.of_key = ValueStateDescriptor("windows", Types.INT())
        self.of_window = ValueStateDescriptor("firings", Types.INT())

    def process(self, key, context, elements):
        windows = context.global_state().get_state(self.of_key)
        firings = context.window_state().get_state(self.of_window)
        windows.update((windows.value() or 0) + 1)
        firings.update((firings.value() or 0) + 1)
        amounts = [element[1] for element in elements]
        yield Row(
            key=key, window=str(context.window()), n=windows.value(), m=firings.value(), amounts=amounts
        )

    def clear(self, context):
        context.window_state().get_state(self.of_window).clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("bob", 2, 900),
        ("cem", 7, 2400),
        ("ann", 9, 3900),
        ("ann", 5, 5400),
        ("ann", 8, 6200),
        ("ann", 6, 7300),
        ("ann", 4, 11300),
        ("cem", 5, 12800),
        ("bob", 5, 16800),
        ("bob", 3, 20800),
        ("ann", 8, 24100),
        ("ann", 9, 28100),
        ("cem", 8, 29200),
        ("bob", 2, 30700),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0], key_type=Types.STRING())
    .window(SlidingEventTimeWindows.of(Time.seconds(6), Time.seconds(3), Time.seconds(1)))
    .process(Numbered())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
