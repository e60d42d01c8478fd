"""The Python daemon that Spark's worker processes are forked from, with all modules of an epoch preloaded.

Spark starts it with `python -m`. It opens nothing and starts no thread, because its children inherit the state.
"""

from __future__ import annotations

import pyspark.worker
from pyspark import daemon

import tidegate.runtime.spark.tasks
from tidegate.runtime.spark import freezing

__all__ = ["PRELOADED"]

PRELOADED = (pyspark.worker, tidegate.runtime.spark.tasks)

if __name__ == "__main__":
    freezing.begin()
    daemon.manager()
