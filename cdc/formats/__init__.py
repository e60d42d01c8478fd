"""JSON formats of changes in messages, both ways."""

from __future__ import annotations

from tidegate.cdc.formats.canal import CanalJson as CanalJson
from tidegate.cdc.formats.changelog import ChangelogJson as ChangelogJson
from tidegate.cdc.formats.debezium import DebeziumJson as DebeziumJson
from tidegate.cdc.formats.maxwell import MaxwellJson as MaxwellJson

__all__ = ["CanalJson", "ChangelogJson", "DebeziumJson", "MaxwellJson"]
