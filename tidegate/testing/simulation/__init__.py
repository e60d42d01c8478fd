"""Deterministic simulation: the state machines of the runtime under a seeded scheduler with injected failures."""

from tidegate.testing.simulation.machines import Machines as Machines
from tidegate.testing.simulation.world import World as World

__all__ = ["Machines", "World"]
