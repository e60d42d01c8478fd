"""Timers of the clock that are not due when the input ends (mode batch).

Compared by key.
"""

from pyflink.datastream import (
    KeyedProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeDomain,
)


class Timed(KeyedProcessFunction):
    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        ctx.timer_service().register_processing_time_timer(32_503_680_000_000)
        yield value[0], "seen", value[1]

    def on_timer(self, timestamp, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), "fired", ctx.time_domain() == TimeDomain.PROCESSING_TIME


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection([("ann", 4), ("bob", 5), ("bob", 4), ("bob", 2), ("ann", 2)])
result = pairs.key_by(lambda pair: pair[0]).process(Timed())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
