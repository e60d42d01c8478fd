"""Blackhole sink: discards every record."""

from __future__ import annotations

from tidegate.connectors.blackhole.sink import BlackHoleSink as BlackHoleSink

__all__ = ["BlackHoleSink"]
