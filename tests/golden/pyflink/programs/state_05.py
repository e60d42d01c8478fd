"""State of a key (info tuple, key untyped, of map).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor


class Told(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_map_state(MapStateDescriptor("counts", Types.INT(), Types.STRING()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        number = value[1]
        empty = self.state.is_empty()
        if number == 9:
            self.state.clear()
        elif self.state.contains(number):
            self.state.put(number, self.state.get(number) + "x")
        elif number > 5:
            self.state.put_all({number: "p", number - 5: "q"}.items())
        elif number in self.state:
            del self.state[number]
        else:
            self.state[number] = "n"
            self.state.remove(number + 1)
        yield (
            value[0],
            number,
            empty,
            sorted(self.state.items()),
            sorted(self.state.keys()),
            sorted(self.state.values()),
        )


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("ann", 4),
        ("cem", 8),
        ("ann", 3),
        ("ann", 4),
        ("ann", 3),
        ("cem", 3),
        ("cem", 2),
        ("cem", 5),
        ("bob", 1),
        ("ann", 7),
        ("bob", 4),
        ("bob", 6),
        ("ann", 4),
        ("ann", 5),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0]).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
