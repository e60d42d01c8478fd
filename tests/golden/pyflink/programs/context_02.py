"""What a function learns of its surroundings (stamps none, how process, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment


class Told(ProcessFunction):
    def process_element(self, value, ctx: "ProcessFunction.Context"):
        yield value[0], ctx.timestamp(), ctx.timer_service().current_processing_time() > 0


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [("bob", 2, 4000), ("cem", 3, 4400), ("cem", 1, 4100), ("cem", 4, 4100), ("ann", 4, 5600)],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = payments.process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
