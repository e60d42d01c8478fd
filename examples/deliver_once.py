"""Messages delivered exactly once to a system without two-phase commit, which recognises a token it was given before.

The system is a table of SQLite here; an HTTP interface with idempotency keys is used the same way.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

from tidegate.connectors.base import WriteAheadSink
from tidegate.datastream import StreamExecutionEnvironment

OUTBOX = "outbox.db"


def deliver(token: str, messages: list[Any]) -> bool:
    """Deliver all messages under the token, in one act; False if they were delivered under it before."""
    with closing(sqlite3.connect(OUTBOX, timeout=30)) as outbox, outbox:
        outbox.execute("CREATE TABLE IF NOT EXISTS tokens (token PRIMARY KEY)")
        outbox.execute("CREATE TABLE IF NOT EXISTS messages (message)")
        if outbox.execute("INSERT OR IGNORE INTO tokens VALUES (?)", (token,)).rowcount == 0:
            return False
        outbox.executemany(
            "INSERT INTO messages VALUES (?)", [(json.dumps(message),) for message in messages]
        )
    return True


def alerts(reading: dict[str, Any]) -> Any:
    """Nothing, or one alert."""
    if reading["degrees"] > 30:
        yield {"sensor": reading["sensor"], "alert": f"{reading['degrees']} degrees"}


env = StreamExecutionEnvironment.get_execution_environment()
readings = env.from_collection([{"sensor": number % 5, "degrees": number % 40} for number in range(400)])
readings.flat_map(alerts).sink_to(WriteAheadSink(deliver))
print(env.execute("alerts"))
