"""Options of the embedded executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidegate.errors import ConfigError
from tidegate.options import check_ranges, option

__all__ = ["EmbeddedOptions"]


@dataclass(frozen=True)
class EmbeddedOptions:
    """The processes of a job on this machine, and what happens when one of them fails."""

    task_managers: int | None = option(
        "minicluster.number-of-taskmanagers",
        None,
        "number of processes; default: enough for the slots that the job needs",
    )
    task_slots: int = option(
        "taskmanager.numberOfTaskSlots", 1, "slots per process; they share one interpreter lock"
    )
    local_recovery: bool = option(
        "state.backend.local-recovery",
        False,
        "whether task managers keep local copies of their snapshots for restarts; no effect on Spark",
    )
    failover: Literal["region", "full"] = option(
        "jobmanager.execution.failover-strategy",
        "region",
        "region: only the failover region with the failure restarts; full: all tasks restart",
    )
    slot_timeout_ms: int = option(
        "slot.request.timeout", 300_000, "how long a failover region waits for the processes with its slots"
    )
    heartbeat_ms: int = option(
        "heartbeat.interval", 10_000, "interval between heartbeat requests to the processes"
    )
    heartbeat_timeout_ms: int = option(
        "heartbeat.timeout", 50_000, "a process that has not answered for this long is killed and replaced"
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.heartbeat_timeout_ms <= self.heartbeat_ms:
            raise ConfigError(
                f"option 'heartbeat.timeout' is out of range; got {self.heartbeat_timeout_ms}; expected more than "
                f"heartbeat.interval, which is {self.heartbeat_ms}"
            )
