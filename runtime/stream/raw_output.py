"""Raw state output: functions write state as bytes at a barrier.

Example:
    >>> output = RawKeyedOutput(KeyGroupRange(64, 128), 128)
    >>> output.key_group_of("ann")
    74
    >>> output.start_new_key_group(74)
    >>> output.write(b"of ann and others")
    17
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from tidegate.errors import ConfigError
from tidegate.keys import KeyGroupRange, key_bytes, key_group

__all__ = ["RawKeyedOutput", "RawOutput"]


class RawOutput:
    """Takes bytes of a subtask, one partition after the other; a file for `pickle.dump` and its like."""

    def __init__(self) -> None:
        self.partitions: list[BytesIO] = []

    def start_new_partition(self) -> None:
        """What is written from now on may go to another subtask than what was written before."""
        self.partitions.append(BytesIO())

    def write(self, data: bytes) -> int:
        """Append to the partition; the first one needs no start."""
        if not self.partitions:
            self.start_new_partition()
        return self.partitions[-1].write(data)


class RawKeyedOutput:
    """Takes bytes of key groups, one after the other; a file for `pickle.dump` and its like."""

    def __init__(self, key_groups: KeyGroupRange, max_parallelism: int) -> None:
        self.parts: dict[int, BytesIO] = {}
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._current: BytesIO | None = None

    def get_key_group_list(self) -> range:
        """The key groups of this subtask."""
        return range(self._key_groups.first, self._key_groups.last)

    def key_group_of(self, key: Any) -> int:
        """The key group of a key, as `get_current_key()` gives it."""
        return key_group(key_bytes(key), self._max_parallelism)

    def start_new_key_group(self, key_group: int) -> None:
        """What is written from now on belongs to this key group; each can be started once.

        Raises:
            ConfigError: it belongs to another subtask, or was started before.
        """
        if key_group not in self._key_groups or key_group in self.parts:
            raise ConfigError(
                f"raw state of key group {key_group} cannot be written; got "
                f"{'a group already written' if key_group in self.parts else 'a group of another subtask'}; expected "
                f"each of {self._key_groups.first} to {self._key_groups.last - 1} at most once"
            )
        self._current = self.parts[key_group] = BytesIO()

    def write(self, data: bytes) -> int:
        """Append to the key group that was started last.

        Raises:
            ConfigError: none was started.
        """
        if self._current is None:
            raise ConfigError(
                "raw keyed state was written outside a key group; call start_new_key_group(...) first"
            )
        return self._current.write(data)
