"""Open transactions of sinks, for operators: list, commit and abort them.

Only ids of our form are looked at: a prefix, the number of a subtask, a number of its pool, matched as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from tidegate.clock import Clock
from tidegate.connectors.kafka._wire import OpenTransaction, Wire
from tidegate.connectors.kafka.pool import ANY_ID, id_pattern
from tidegate.errors import CommitUnknownError, ConfigError

__all__ = ["OpenTransactions"]

_DONE: Final = 0


class OpenTransactions:
    """A connection to a cluster, for its open transactions.

    Args:
        brokers: Where the cluster is.
        properties: More settings of the client, librdkafka's names; shown nowhere.
        clock: For waiting.

    Raises:
        ConfigError: a security setting has no counterpart in the client that does this.
        UnavailableError: no broker answers.
    """

    def __init__(self, brokers: str, properties: Mapping[str, Any], clock: Clock) -> None:
        self._wire = Wire({**properties, "bootstrap.servers": brokers}, clock)

    def under(self, prefix: str | None) -> list[OpenTransaction]:
        """Those under a prefix; of all prefixes if it is None."""
        return self._wire.open_transactions(ANY_ID if prefix is None else id_pattern(prefix))

    def named(self, ids: Collection[str]) -> list[OpenTransaction]:
        """Those with the given ids.

        Raises:
            ConfigError: one is not of our form, or has no open transaction.
        """
        for each in ids:
            if not ANY_ID.fullmatch(each):
                raise ConfigError(
                    f"{each!r} is not a transactional id of a sink; expected <prefix>-<subtask>-<number>, as "
                    "`list` shows them"
                )
        found = self._wire.open_transactions(re.compile("|".join(map(re.escape, ids))))
        if missing := sorted(set(ids) - {each.transactional_id for each in found}):
            raise ConfigError(
                f"transactional id {missing[0]!r} has no open transaction; expected one that `list` shows"
            )
        return found

    def commit(self, transaction: OpenTransaction) -> None:
        """Make its records visible.

        Raises:
            ConfigError: it is not prepared, so it has a part of its epoch at most.
            CommitUnknownError: the coordinator did not say that it did.
        """
        name = transaction.transactional_id
        if not transaction.prepared:
            raise ConfigError(
                f"transaction {name!r} is not prepared: it may not contain all records of its epoch; abort it, or "
                "leave it to its pipeline"
            )
        (code,) = self._wire.commit([transaction.key])
        if code != _DONE:
            raise CommitUnknownError(
                f"transaction {name!r}: the coordinator answered a commit with error {code}; it is unknown "
                "whether its records are visible; the transaction may have ended, or a new one may have started; "
                "check with `list`"
            )

    def abort(self, transaction: OpenTransaction) -> None:
        """Remove its records for good, and refuse its producer from now on.

        Raises:
            ConfigError: it has ended, or a new one has started.
        """
        if self._wire.fence([transaction.key]):
            raise ConfigError(
                f"transaction {transaction.transactional_id!r} has changed since it was listed: its id has a new "
                "producer; nothing was aborted; list the transactions again"
            )

    def close(self) -> None:
        """Disconnect."""
        self._wire.close()
