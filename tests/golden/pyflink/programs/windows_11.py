"""Windows of a keyed stream in event time (key untyped, assigner tumbling, how state).

Compared by key.
"""

from pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows


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
        ("ann", 1, 1500),
        ("bob", 1, 800),
        ("ann", 2, 1500),
        ("cem", 3, 1200),
        ("bob", 7, 3400),
        ("cem", 4, 4900),
        ("cem", 2, 4900),
        ("bob", 8, 6400),
        ("bob", 6, 7900),
        ("bob", 2, 9400),
        ("ann", 3, 13400),
        ("ann", 1, 16700),
        ("cem", 7, 17600),
        ("ann", 5, 19200),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(5)))
    .process(Numbered())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
