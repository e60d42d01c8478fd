"""Windows that fire by a trigger (window tumbling, trigger stateful).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ReducingStateDescriptor
from pyflink.datastream.window import Trigger, TriggerResult, TumblingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class EveryOther(Trigger):
    def __init__(self):
        self.seen = ReducingStateDescriptor("seen", lambda left, right: left + right, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        seen = ctx.get_partitioned_state(self.seen)
        seen.add(1)
        if seen.get() == 2:
            seen.clear()
            return TriggerResult.FIRE_AND_PURGE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.seen)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.seen).clear()


class Listed(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, [element[1] for element in elements]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("ann", 2, 1500),
        ("ann", 3, 4800),
        ("ann", 3, 7000),
        ("ann", 8, 10300),
        ("ann", 4, 11800),
        ("bob", 3, 16500),
        ("ann", 3, 17300),
        ("bob", 9, 18800),
        ("bob", 1, 20400),
        ("bob", 7, 20600),
        ("bob", 4, 21300),
        ("cem", 7, 21700),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(6)))
    .trigger(EveryOther())
    .process(Listed())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
