"""Scenario of the demo: start the job, kill it, start it again; three times, then let it finish.

Moments of the kills are random, by a seed: some checkpoints after a start, and then anywhere within an interval.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.clock import Clock
from tidegate.errors import JobFailedError, UnavailableError
from tidegate.runtime.cli.demo.process import JobProcess
from tidegate.runtime.cli.demo.screen import Screen
from tidegate.runtime.cli.demo.timeline import Kill, Sample, Timeline
from tidegate.runtime.cli.demo.workspace import Workspace

__all__ = ["KILLS", "Plan", "Scenario"]

KILLS: Final = 3

_INTERVAL_MS: Final = 1_000
_RATE: Final = 20_000.0
_SHORTEST_S: Final = 5.0
_FEWEST_INTERVALS: Final = 10
_SLACK_S: Final = 27.0
_TICK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """How much there is to do, at which speed, and what chance decides."""

    records: int
    seed: int

    @property
    def rate(self) -> float:
        """Records a second; few records are read slowly, so that there is time to be killed three times."""
        return min(_RATE, self.records / _SHORTEST_S)

    @property
    def seconds(self) -> float:
        """The duration of the job without kills."""
        return self.records / self.rate

    @property
    def interval_ms(self) -> int:
        """Time between two checkpoints."""
        return min(_INTERVAL_MS, int(self.seconds * 1_000 / _FEWEST_INTERVALS))

    def patience(self, chance: random.Random) -> tuple[int, float]:
        """How many checkpoints a run may settle before it is killed, and how many seconds more it has.

        The runs that are killed need less than three quarters of the records.
        """
        interval_s = self.interval_ms / 1_000
        fair = self.seconds / interval_s / (KILLS + 1) - 2
        return max(1, round(fair + chance.uniform(-1, 1))), chance.uniform(0, interval_s)


class Scenario:
    """Plays a plan in a workspace; `timeline` tells afterwards what happened.

    Args:
        plan: What to play.
        workspace: Where the job works and says what it does.
        screen: Where people see it.
        clock: For moments.
        command: What starts the job, each time.
        damage: Called once, after the second kill, with what decides by chance; says what it did.
        on_sample: Called with each sample of the job.
        slack_s: How much longer than planned all of it may take.
    """

    def __init__(
        self,
        plan: Plan,
        workspace: Workspace,
        screen: Screen,
        clock: Clock,
        command: Sequence[str],
        *,
        damage: Callable[[random.Random], str] | None = None,
        on_sample: Callable[[Sample], None] = lambda sample: None,
        slack_s: float = _SLACK_S,
    ) -> None:
        self.timeline = Timeline()
        self._plan = plan
        self._workspace = workspace
        self._screen = screen
        self._clock = clock
        self._command = command
        self._damage = damage
        self._on_sample = on_sample
        self._slack_s = slack_s
        self._chance = random.Random(plan.seed)
        self._began_s = clock.monotonic()

    def play(self) -> None:
        """Run the job to its end, through all kills.

        Raises:
            JobFailedError: it ended by itself and not well.
            UnavailableError: the machine is too slow to finish in reasonable time.
        """
        for run in range(KILLS):
            settled, more_s = self._plan.patience(self._chance)
            if not self._run_until_killed(run, settled, more_s):
                return
            if run == 1 and self._damage is not None:
                self._screen.say(f"         SABOTAGE, on purpose: {self._damage(self._chance)}")
        self._run_to_the_end(KILLS)

    def _run_until_killed(self, run: int, settled: int, more_s: float) -> bool:
        """Whether it was still running when its time came."""
        job = self._start(run)
        try:
            self._follow(job, run, lambda sample: sample.settled >= settled)
            until_s = self._now_s() + more_s
            self._follow(job, run, lambda sample: self._now_s() >= until_s)
            if not job.running:
                self._expect_success(job)
                return False
            at_s = self._now_s()
            self.timeline.kills.append(Kill(at_s, job.pid, job.kill()))
            self._screen.say(
                f"{at_s:5.1f} s  kill -9 to job {job.pid} and all its children; it died "
                f"by {signal.Signals(-self.timeline.kills[-1].code).name}, no process of it is left"
            )
            return True
        finally:
            job.close()

    def _run_to_the_end(self, run: int) -> None:
        job = self._start(run)
        try:
            self._follow(job, run, lambda sample: False)
            self._expect_success(job)
        finally:
            job.close()
        self._screen.say(f"{self._now_s():5.1f} s  the job has finished")

    def _start(self, run: int) -> JobProcess:
        job = JobProcess(self._command, self._workspace.root.resolve(), self._workspace.log.resolve())
        again = "the same command again: it resumes from its newest checkpoint" if run else "the job starts"
        self._screen.say(f"{self._now_s():5.1f} s  {again} (pid {job.pid})")
        return job

    def _follow(self, job: JobProcess, run: int, enough: Callable[[Sample], bool]) -> None:
        """Listen until it is enough or the job is gone."""
        sample = Sample(self._now_s(), run, 0, 0)
        if not self.timeline.samples or self.timeline.samples[-1].run != run:
            self.timeline.add(sample)
        while job.running and not enough(self.timeline.samples[-1]):
            snapshot = job.receive(_TICK_S)
            if snapshot is not None:
                self.timeline.add(Sample(self._now_s(), run, snapshot.records, snapshot.settled))
            self._on_sample(self.timeline.samples[-1])
            self._screen.show(self.timeline, self._now_s())
            if self._now_s() > self._plan.seconds + self._slack_s:
                raise UnavailableError(
                    f"the demo has not finished after {self._now_s():.0f} s, expected about {self._plan.seconds + 10:.0f} s; "
                    f"this machine is busy: try again, or with --records {self._plan.records // 2}"
                )

    def _expect_success(self, job: JobProcess) -> None:
        code = job.wait()
        if code != 0:
            raise JobFailedError(
                f"the demo's job ended with exit code {code}; its output is in {self._workspace.log}"
            )

    def _now_s(self) -> float:
        return self._clock.monotonic() - self._began_s
