"""Windows that fire by a trigger (window tumbling, trigger count).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import CountTrigger, PurgingTrigger, TumblingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Listed(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, [element[1] for element in elements]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("cem", 2, 0),
        ("cem", 2, 1500),
        ("cem", 5, 5500),
        ("cem", 4, 7000),
        ("ann", 9, 7900),
        ("ann", 3, 11900),
        ("bob", 5, 11600),
        ("cem", 8, 13100),
        ("ann", 8, 13800),
        ("cem", 3, 15300),
        ("bob", 8, 16100),
        ("cem", 4, 17000),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(6)))
    .trigger(PurgingTrigger.of(CountTrigger.of(2)))
    .process(Listed())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
