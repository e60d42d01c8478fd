"""Raw state: bytes that functions write themselves, in their own format.

It belongs to a subtask, in *partitions* that are redistributed like the items of a list, or to a key group, and then moves
with the keys to other subtasks. It is never decoded: what is not written at a barrier is not in the checkpoint.

Example:
    >>> raw = RawState(RestoredOperator(), KeyGroupRange(0, 64), 128)
    >>> output = raw.get_raw_keyed_operator_state_output()
    >>> output.start_new_key_group(7)
    >>> output.write(b"seven")
    5
    >>> [(held.name, held.dealt, held.groups, held.items) for held in raw.snapshot()]
    [('raw-keyed', 'key group', (7,), (b'seven',))]
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO, Final, NoReturn

from tidegate.errors import ConfigError
from tidegate.keys import KeyGroupRange
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.runtime.stream.raw_output import RawKeyedOutput, RawOutput

__all__ = ["RawState"]

_RAW: Final = "raw"
_KEYED: Final = "raw-keyed"


class RawState:
    """The raw state of one operator in one subtask; a snapshot repeats what was not written again since `begin`.

    `key_groups` are those of the subtask, None where the input has no key.
    """

    def __init__(
        self, restored: RestoredOperator, key_groups: KeyGroupRange | None, max_parallelism: int
    ) -> None:
        self._lists = {held.name: held for held in restored.lists if held.name in (_RAW, _KEYED)}
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._raw: RawOutput | None = None
        self._keyed: RawKeyedOutput | None = None

    def begin(self) -> None:
        """Start a snapshot: what functions write from now on replaces what they wrote before."""
        self._lists = {}
        self._raw = self._keyed = None

    def get_raw_operator_state_output(self) -> RawOutput:
        """The output for partitions of the subtask; the same object for the whole snapshot."""
        if self._raw is None:
            self._raw = RawOutput()
        return self._raw

    def get_raw_keyed_operator_state_output(self) -> RawKeyedOutput:
        """The output for key groups; the same object for the whole snapshot.

        Raises:
            ConfigError: the input has no key.
        """
        if self._keyed is None:
            self._keyed = RawKeyedOutput(self._key_groups or self._refuse(), self._max_parallelism)
        return self._keyed

    def get_raw_operator_state_inputs(self) -> Iterator[BinaryIO]:
        """The partitions of this subtask."""
        return (BytesIO(item) for item in self._items(_RAW))

    def get_raw_keyed_state_inputs(self) -> Iterator[tuple[int, BinaryIO]]:
        """The key groups of this subtask that have raw state, with their bytes."""
        groups = self._lists[_KEYED].groups if _KEYED in self._lists else ()
        return zip(groups or (), map(BytesIO, self._items(_KEYED)), strict=True)

    def snapshot(self) -> tuple[OperatorList, ...]:
        """The raw state written since `begin`, or otherwise the restored one."""
        lists = dict(self._lists)
        if self._raw is not None:
            lists[_RAW] = OperatorList(_RAW, tuple(part.getvalue() for part in self._raw.partitions))
        if self._keyed is not None:
            groups = tuple(sorted(self._keyed.parts))
            items = tuple(self._keyed.parts[group].getvalue() for group in groups)
            lists[_KEYED] = OperatorList(_KEYED, items, "key group", groups=groups)
        return tuple(lists.values())

    def _items(self, name: str) -> tuple[bytes, ...]:
        return self._lists[name].items if name in self._lists else ()

    def _refuse(self) -> NoReturn:
        raise ConfigError(
            "raw state of key groups needs a key; got an input without keys; expected one behind key_by(...): "
            "use get_raw_operator_state_output()"
        )
