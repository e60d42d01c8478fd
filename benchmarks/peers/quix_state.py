"""The state of Quix Streams by itself, as its transactions use it: no broker, so no change log and no serving of records."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from quixstreams.state.rocksdb import RocksDBStorePartition

from benchmarks.peers.serve import serve
from benchmarks.peers.touches import drawn, key_of, touched

COMMIT = 10_000
"""Records of one transaction."""


def run(job: str, records: int, wanted: bool) -> list[Any] | None:
    seen = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        partition = RocksDBStorePartition(str(Path(folder, "state")))
        numbers = iter(drawn(job, records))
        while batch := list(islice(numbers, COMMIT)):
            transaction = partition.begin()
            for number in batch:
                state = transaction.as_state(prefix=key_of(number).encode())
                value = touched(state.get("seen"), number)
                state.set("seen", value)
                if wanted:
                    seen[value] += 1
            transaction.prepare()
            transaction.flush()
        partition.close()
    return list(seen.items()) if wanted else None


if __name__ == "__main__":
    serve(run)
