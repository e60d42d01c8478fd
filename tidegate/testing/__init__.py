"""Conformance kits for backends, storages, sources and sinks, and real servers for tests.

A kit is a pytest class: subclass it, give it one fixture, and every clause of the contract is a test. The kits need
the extra `testing` and load when they are first used; `tidegate.testing.services` works without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.testing.audited import AuditedSourceSuite as AuditedSourceSuite
    from tidegate.testing.backend import BackendSuite as BackendSuite
    from tidegate.testing.claims import ClaimingSinkSuite as ClaimingSinkSuite
    from tidegate.testing.sink import CommittingSinkSuite as CommittingSinkSuite, SinkSuite as SinkSuite
    from tidegate.testing.source import (
        FetchingSourceSuite as FetchingSourceSuite,
        PausingSourceSuite as PausingSourceSuite,
        RangedSourceSuite as RangedSourceSuite,
        SourceSuite as SourceSuite,
    )
    from tidegate.testing.storage import StorageSuite as StorageSuite

_HOMES = {
    "AuditedSourceSuite": "audited",
    "BackendSuite": "backend",
    "ClaimingSinkSuite": "claims",
    "CommittingSinkSuite": "sink",
    "FetchingSourceSuite": "source",
    "PausingSourceSuite": "source",
    "RangedSourceSuite": "source",
    "SinkSuite": "sink",
    "SourceSuite": "source",
    "StorageSuite": "storage",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate.testing' has no attribute {name!r}")
    pytest = import_module("pytest")
    pytest.register_assert_rewrite(f"tidegate.testing.{_HOMES[name]}")
    return getattr(import_module(f"tidegate.testing.{_HOMES[name]}"), name)
