"""Check that a conformance suite fails for a deliberately broken implementation.

Pass a broken implementation to a suite and name the clause that must fail.
"""

from __future__ import annotations

import inspect
import os

import pytest

__all__ = ["passes"]


def passes(suite: type, *clauses: str) -> bool:
    """Run clauses of a suite class in a separate pytest session in this process; returns whether all passed.

    The class must be at module level, with a name that the outer pytest does not collect.

    Raises:
        LookupError: the suite has no such clause.
    """
    outcomes = _Outcomes()
    location = f"{inspect.getfile(suite)}::{suite.__name__}"
    alone = [f"--config-file={os.devnull}", "--noconftest", "--import-mode=importlib"]
    without = [f"-pno:{plugin}" for plugin in ("cacheprovider", "faulthandler", "terminal")]
    chosen = [f"{location}::{clause}" for clause in clauses]
    pytest.main([*alone, *without, "-o", f"python_classes={suite.__name__}", *chosen], plugins=[outcomes])
    if outcomes.ran != set(clauses):
        raise LookupError(f"{location} has no clause {sorted(set(clauses) - outcomes.ran)}")
    return not outcomes.failed


class _Outcomes:
    def __init__(self) -> None:
        self.ran: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        clause = report.nodeid.rpartition("::")[2]
        self.ran.add(clause)
        if not report.passed:
            self.failed.add(clause)
