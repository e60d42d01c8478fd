"""Slot sharing groups and their resources, under PyFlink's names.

The resources of a group are what the program says of it. Nothing enforces them: a slot is a share of a process, and
what a process may use is the operating system's to limit.

Example:
    >>> heavy = SlotSharingGroup.builder("heavy").set_cpu_cores(0.5).set_task_heap_memory_mb(64).build()
    >>> heavy.get_name(), heavy.get_cpu_cores(), str(heavy.get_task_heap_memory())
    ('heavy', 0.5, '64 mb')
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from tidegate.errors import ConfigError
from tidegate.runtime.unsupported_api import UnsupportedApi

__all__ = ["MemorySize", "SlotSharingGroup", "SlotSharingGroupBuilder", "SlotSharingGroups"]

_UNITS: Final = ("bytes", "kb", "mb", "gb", "tb")


@dataclass(frozen=True, order=True)
class MemorySize(UnsupportedApi):
    """A number of bytes.

    Example:
        >>> MemorySize.of_mebi_bytes(3).get_kibi_bytes(), str(MemorySize(bytes_size=1_536))
        (3072, '1536 bytes')
    """

    bytes_size: int

    def __post_init__(self) -> None:
        if type(self.bytes_size) is not int or self.bytes_size < 0:
            raise ConfigError(f"memory size is {self.bytes_size!r}; expected an integer of at least 0")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Units of 1024 * 1024 bytes."""
        return MemorySize(MemorySize(mebi_bytes).bytes_size << 20)

    def get_bytes(self) -> int:
        """In bytes."""
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        """In units of 1024 bytes, without the rest."""
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        """In units of 1024 kibibytes, without the rest."""
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        """In units of 1024 mebibytes, without the rest."""
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        """In units of 1024 gibibytes, without the rest."""
        return self.bytes_size >> 40

    def __str__(self) -> str:
        whole, unit = self.bytes_size, 0
        while whole and whole % 1024 == 0 and unit < len(_UNITS) - 1:
            whole, unit = whole >> 10, unit + 1
        return f"{whole} {_UNITS[unit]}"


@dataclass(frozen=True)
class SlotSharingGroup(UnsupportedApi):
    """The name of a group and what a slot of it is said to need; made by `builder(name)`."""

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ConfigError(
                f"slot_sharing_group takes a str or a SlotSharingGroup; got {type(self.name).__name__}"
            )
        if not self.name:
            raise ConfigError("slot sharing group is empty; expected a name; the default group is 'default'")

    @staticmethod
    def builder(name: str) -> SlotSharingGroupBuilder:
        """Begin a group."""
        return SlotSharingGroupBuilder(name)

    def get_name(self) -> str:
        """What the group is called."""
        return self.name

    def get_cpu_cores(self) -> float | None:
        """Cores that a slot needs, None if nothing was said."""
        return self.cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """Memory that functions need, None if nothing was said."""
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Memory that libraries of functions need, None if nothing was said."""
        return self.task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """Memory that state needs, None if nothing was said."""
        return self.managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Further resources by name."""
        return dict(self.external_resources)

    @property
    def says_nothing(self) -> bool:
        """Whether it is only a name."""
        return self == SlotSharingGroup(self.name)


class SlotSharingGroupBuilder:
    """Collects what a slot of a group needs."""

    def __init__(self, name: str) -> None:
        self._group = SlotSharingGroup(name)

    def set_cpu_cores(self, cpu_cores: float) -> Self:
        """Cores, or a part of one."""
        return self._with(cpu_cores=_amount("cpu cores", cpu_cores))

    def set_task_heap_memory(self, task_heap_memory: MemorySize) -> Self:
        """Memory that functions need."""
        memory = _memory("task heap memory", task_heap_memory)
        if not memory.bytes_size:
            raise ConfigError(
                "task heap memory is 0; expected more than 0; or leave out both it and the cpu cores"
            )
        return self._with(task_heap_memory=memory)

    def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> Self:
        """Memory that functions need, in mebibytes."""
        return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

    def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> Self:
        """Memory that libraries of functions need."""
        return self._with(task_off_heap_memory=_memory("task off-heap memory", task_off_heap_memory))

    def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> Self:
        """Memory that libraries of functions need, in mebibytes."""
        return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

    def set_managed_memory(self, managed_memory: MemorySize) -> Self:
        """Memory that state needs."""
        return self._with(managed_memory=_memory("managed memory", managed_memory))

    def set_managed_memory_mb(self, managed_memory_mb: int) -> Self:
        """Memory that state needs, in mebibytes."""
        return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

    def set_external_resource(self, name: str, value: float) -> Self:
        """A further resource; the last value of a name counts."""
        resources = {**self._group.get_external_resources(), name: _amount(f"resource {name!r}", value)}
        return self._with(external_resources=tuple(sorted(resources.items())))

    def build(self) -> SlotSharingGroup:
        """The group.

        Raises:
            ConfigError: there are resources, but not both cores and heap memory.
        """
        group = self._group
        if not group.says_nothing and (group.cpu_cores is None or group.task_heap_memory is None):
            raise ConfigError(
                f"slot sharing group {group.name!r} has resources without both cpu cores and task heap memory; "
                "set both, or no resources at all"
            )
        return group

    def _with(self, **said: Any) -> Self:
        self._group = replace(self._group, **said)
        return self


class SlotSharingGroups:
    """The groups of a program whose resources are known."""

    def __init__(self) -> None:
        self._known: dict[str, SlotSharingGroup] = {}

    def named(self, given: str | SlotSharingGroup) -> str:
        """The name of a group, whose resources are from now on known if it has any.

        Raises:
            ConfigError: it is neither a name nor a group, or it has other resources elsewhere.
        """
        group = given if isinstance(given, SlotSharingGroup) else SlotSharingGroup(given)
        if not group.says_nothing and self._known.setdefault(group.name, group) != group:
            raise ConfigError(
                f"slot sharing group {group.name!r} has two different sets of resources; "
                "build the group once and use that object everywhere"
            )
        return group.name


def _amount(what: str, given: Any) -> float:
    if not isinstance(given, int | float) or not given > 0:
        raise ConfigError(f"{what} is {given!r}; expected a number above 0")
    return float(given)


def _memory(what: str, given: Any) -> MemorySize:
    if not isinstance(given, MemorySize):
        raise ConfigError(f"{what} is {given!r}; expected a MemorySize such as MemorySize.of_mebi_bytes(64)")
    return given
