"""The state of Bytewax: `stateful_map` over values in memory, no recovery store."""

from __future__ import annotations

from collections import Counter
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

from benchmarks.peers.bytewax_flows import Output, Sequence, drop
from benchmarks.peers.serve import serve
from benchmarks.peers.touches import drawn, key_of, touched


def run(job: str, records: int, wanted: bool) -> list[Any] | None:
    seen = Counter[str]()
    flow = Dataflow(job)
    numbers = op.input("numbers", flow, Sequence(drawn(job, records)))
    values = op.stateful_map("touch", op.key_on("key", numbers, key_of), follow)
    op.output(
        "out", values, Output((lambda pairs: seen.update(value for _, value in pairs)) if wanted else drop)
    )
    run_main(flow)
    return list(seen.items()) if wanted else None


def follow(value: str | None, number: int) -> tuple[str, str]:
    following = touched(value, number)
    return following, following


if __name__ == "__main__":
    serve(run)
