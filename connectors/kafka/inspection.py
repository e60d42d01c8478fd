"""Checks of `tidegate check` on brokers, topics and permissions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.kafka._wire import Wire
from tidegate.connectors.spi import Finding
from tidegate.errors import ConfigError

__all__ = ["check_topics", "check_transactional_ids"]

_NO_PRODUCER: Final = 1 << 62
"""A producer id that no coordinator assigns."""

_ADVERB: Final = {"READ": "read", "WRITE": "written"}


def check_topics(
    settings: Mapping[str, Any], topics: Iterable[str], permission: Literal["READ", "WRITE"]
) -> Iterator[Finding]:
    """Whether the brokers answer and accept the client, and each topic exists and may be read or written.

    Raises:
        ConfigError: the brokers refused the client.
        UnavailableError: no broker answers.
    """
    from tidegate.connectors.kafka._client import Cluster

    brokers, names, done = settings["bootstrap.servers"], sorted(topics), _ADVERB[permission]
    cluster = Cluster(settings)
    cluster.reach()
    yield Finding("kafka", "ok", f"{brokers} answers")
    known = cluster.permissions(names)
    for name in names:
        allowed = known.get(name, frozenset())
        if name not in known:
            yield Finding(
                "kafka",
                "problem",
                f"topic {name!r} does not exist at {brokers}",
                "create it, or correct its name; without the permission to describe it, an existing topic is "
                "reported as missing",
            )
        elif allowed is None:
            yield Finding("kafka", "ok", f"topic {name!r} exists; the brokers do not report permissions")
        elif permission not in allowed:
            has = ", ".join(sorted(allowed)) or "none"
            yield Finding(
                "kafka",
                "problem",
                f"topic {name!r} cannot be {done}: permission denied; got {has}",
                f"grant {permission} on it to the user of the program",
            )
        else:
            yield Finding("kafka", "ok", f"topic {name!r} exists and can be {done}")


def check_transactional_ids(settings: Mapping[str, Any], prefix: str) -> Finding:
    """Whether transactions may be written under a prefix.

    Kafka does not tell permissions of transactional ids. So a coordinator is asked to end a transaction of a producer
    that does not exist: it looks at the permission first, and then refuses without changing anything.

    Raises:
        UnavailableError: no broker answers.
    """
    wire = Wire(settings, SYSTEM_CLOCK)
    try:
        wire.commit([(f"{prefix}-0-0", _NO_PRODUCER, 0)])
    except ConfigError as error:
        return Finding(
            "kafka", "problem", str(error), f"grant WRITE on transactional ids that begin with {prefix!r}"
        )
    finally:
        wire.close()
    return Finding("kafka", "ok", f"transactional ids that begin with {prefix!r} can be used")
