"""The demo on Kafka: topic to topic under load, killed three times, then audited. `tidegate demo --kafka` runs it."""

from __future__ import annotations

from tidegate.testing.kafka_demo.play import play as play

__all__ = ["play"]
