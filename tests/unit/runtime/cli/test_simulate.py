"""`tidegate simulate`: a trace that can be read, and an exit code."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import IgnoresAMissingAck
from tidegate.runtime.cli.main import main
from tidegate.testing import simulation
from tidegate.testing.simulation import Machines, World


def broken(seed: int) -> World:
    return World(seed, Machines(coordinator=IgnoresAMissingAck))


def test_a_seed_is_shown_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "7"]) == 0

    shown = capsys.readouterr().out.splitlines()
    assert shown[-1].startswith("seed 7 keeps every invariant; all output is visible")
    assert any("trigger" in line for line in shown)
    assert any("swap latest" in line for line in shown)
    assert any("crash" in line for line in shown)


def test_the_same_seed_shows_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {(main(["simulate", "--seed", "3"]), capsys.readouterr().out) for _ in range(2)}

    assert len(shown) == 1


def test_many_seeds_are_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "40", "--seeds", "5"]) == 0
    assert capsys.readouterr().out == "5 seeds from 40 on keep every invariant\n"


def test_a_broken_invariant_is_an_exit_code_and_a_trace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "World", broken)

    assert main(["simulate", "--seeds", "3"]) == 1

    shown = capsys.readouterr().out.splitlines()
    assert "trigger 1: after nothing" in "\n".join(shown)
    assert shown[-1].startswith("seed 0 breaks an invariant: checkpoint ")
    assert "breaks key_groups_are_covered_once" in shown[-1]


def test_no_seed_at_all_is_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--seeds", "0"])

    assert ended.value.code == 2
    assert "got 0; expected at least 1" in capsys.readouterr().err
