"""Replacement for PyFlink while its folder is on the module search path; see `tidegate.runtime.alias`."""

from tidegate.runtime.alias import install

__path__: list[str] = []
"""Makes this module a package, whose submodules the alias finder provides."""

install()
