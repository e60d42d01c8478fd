"""Windows of a stream without keys (assigner session, how process, mode batch).

Compared in order.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessAllWindowFunction
from pyflink.datastream.window import EventTimeSessionWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Told(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield f"{type(context.window()).__name__}: {sum(each[1] for each in elements)}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
payments = env.from_collection(
    [
        ("bob", 4, 1500),
        ("cem", 5, 5500),
        ("cem", 8, 5900),
        ("cem", 9, 7400),
        ("ann", 6, 7400),
        ("bob", 3, 8300),
        ("bob", 1, 12300),
        ("ann", 4, 12300),
        ("cem", 7, 12300),
        ("bob", 1, 12300),
        ("ann", 8, 13800),
        ("cem", 3, 15300),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .window_all(EventTimeSessionWindows.with_gap(Time.seconds(1)))
    .process(Told(), Types.STRING())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
