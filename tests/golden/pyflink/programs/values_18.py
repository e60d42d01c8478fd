"""Values of declared types, and what a function sees of them (steps through, of days).

Compared in order.
"""

import datetime

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [
        (
            datetime.date(2024, 2, 29),
            datetime.time(13, 5, 7),
            datetime.datetime(2024, 2, 29, 13, 5, 7, 250000),
        ),
        (datetime.date(1969, 12, 31), datetime.time(0, 0), datetime.datetime(1970, 1, 1)),
    ],
    type_info=Types.TUPLE([Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()]),
)
result = (
    values.map(lambda value: value, Types.TUPLE([Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()]))
    .rebalance()
    .map(lambda value: repr(value))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
