"""Started by spark-submit with the URL of the master; its function lies in a module that is shipped beside it."""

from __future__ import annotations

import importlib
import json
import sys

from tidegate.datastream import StreamExecutionEnvironment

rules = importlib.import_module("shipped_rules")

env = StreamExecutionEnvironment.on_spark(sys.argv[1], {"parallelism.default": 2})
doubled = env.from_collection([1, 2, 3]).key_by(lambda number: number).map(rules.doubled)
print(json.dumps(sorted(doubled.execute_and_collect())))
