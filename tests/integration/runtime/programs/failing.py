"""Fails on one record."""

from tidegate.datastream import StreamExecutionEnvironment


def inverse(number: int) -> int:
    return 10 // (number - 7)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment({"restart-strategy.fixed-delay.attempts": 0})
    print(list(env.from_parallel_collection(range(10)).map(inverse).name("inverse").execute_and_collect()))
