"""Windows of a stream without keys (assigner count, how apply, mode batch).

Compared in order.
"""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.functions import AllWindowFunction
from pyflink.datastream.window import CountTumblingWindowAssigner


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Told(AllWindowFunction):
    def apply(self, window, inputs):
        yield [each[:2] for each in inputs]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
payments = env.from_collection(
    [
        ("ann", 2, 400),
        ("ann", 5, 1300),
        ("ann", 1, 1300),
        ("ann", 8, 2100),
        ("ann", 8, 3200),
        ("ann", 1, 7200),
        ("cem", 1, 8700),
        ("cem", 5, 10200),
        ("bob", 8, 9500),
        ("bob", 6, 14200),
        ("ann", 2, 15700),
        ("cem", 5, 15700),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .window_all(CountTumblingWindowAssigner.of(5))
    .apply(Told())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
