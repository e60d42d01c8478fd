"""Kafka demo, run by `tidegate demo --kafka`: topic to topic under load, killed three times, then audited."""

from __future__ import annotations

from tidegate.testing.kafka_demo.play import play as play

__all__ = ["play"]
