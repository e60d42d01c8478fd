"""How long records wait for others at an exchange."""

from __future__ import annotations

from statistics import median

import pytest

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError


class Latencies:
    """A trickle of stamped records over an exchange; how many milliseconds each was on its way, in order."""

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self._env = env

    def __call__(self, timeout_ms: int, *, of_operator: bool = False) -> list[float]:
        source = GeneratorSource(lambda n: SYSTEM_CLOCK.monotonic(), count=60, rate_per_second=150)
        stream = self._env.from_source(source).set_parallelism(1)
        if of_operator:
            stream.set_buffer_timeout(timeout_ms)
        else:
            self._env.set_buffer_timeout(timeout_ms)
        waited = stream.broadcast().map(lambda sent: (sent, (SYSTEM_CLOCK.monotonic() - sent) * 1000))
        return [latency for _, latency in sorted(waited.execute_and_collect())]


@pytest.mark.spec("001/EX-03")
def test_latency_rises_with_the_buffer_timeout_and_so_does_what_a_buffer_holds(
    anywhere: StreamExecutionEnvironment,
) -> None:
    anywhere.enable_checkpointing(60_000)  # a barrier would send what is held
    latencies = Latencies(anywhere)

    at_once, a_while, only_full = latencies(0), latencies(100), latencies(-1)

    assert median(at_once) < median(a_while) < median(only_full)
    assert sorted(at_once)[len(at_once) // 4] < 50, "where the machine had time for them"
    assert max(a_while) >= 100 - 10
    # 60 records never fill a buffer: the first waits until the end of the input sends the last.
    assert only_full[0] >= 59 / 150 * 1000 - 10


@pytest.mark.spec("001/EX-03")
def test_throughput_rises_once_records_wait_for_others(anywhere: StreamExecutionEnvironment) -> None:
    anywhere.enable_checkpointing(60_000)

    def per_second(timeout_ms: int) -> float:
        count = 10_000
        # Each split is a batch of one record at the source, and so a buffer of its own if it is sent at once.
        source = GeneratorSource(lambda n: SYSTEM_CLOCK.monotonic(), count=count, splits=count)
        stream = anywhere.set_buffer_timeout(timeout_ms).from_source(source).set_parallelism(1)
        times = stream.broadcast().map(lambda sent: (sent, SYSTEM_CLOCK.monotonic()))
        found = list(times.execute_and_collect())
        seconds: float = max(came for _, came in found) - min(sent for sent, _ in found)
        return count / seconds

    at_once, a_while, only_full = (max(per_second(timeout) for _ in range(2)) for timeout in (0, 100, -1))

    assert at_once < a_while
    # At this rate nearly all buffers are full before 100 ms are over: between these two the gain is within the noise.
    assert at_once < only_full


def test_a_step_may_have_a_buffer_timeout_of_its_own(anywhere: StreamExecutionEnvironment) -> None:
    anywhere.enable_checkpointing(60_000)
    anywhere.set_buffer_timeout(-1)

    # Those of the first half would wait at least as long as the second half takes to come.
    latencies = Latencies(anywhere)(0, of_operator=True)
    assert sorted(latencies[:30])[10] < 100


@pytest.mark.parametrize("timeout", [-2, 1.5, None, "10 ms"])
def test_a_buffer_timeout_that_is_none_is_refused(timeout: object) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    message = "buffer timeout is .*; expected milliseconds, 0 to send at once, or -1 for full buffers"

    with pytest.raises(ConfigError, match=message):
        env.set_buffer_timeout(timeout)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=message):
        env.from_collection([1]).set_buffer_timeout(timeout)  # type: ignore[arg-type]


@pytest.mark.parametrize(("setting", "expected"), [({}, 0), ({"execution.buffer-timeout": "-1"}, -1)])
def test_the_buffer_timeout_of_a_job_can_be_asked_for(setting: dict[str, str], expected: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(setting)

    assert env.get_buffer_timeout() == expected
    assert env.set_buffer_timeout(40).get_buffer_timeout() == 40


def test_a_buffer_timeout_below_never_is_out_of_range() -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.buffer-timeout": "-2"})

    with pytest.raises(
        ConfigError, match=r"'execution\.buffer-timeout' is out of range; got -2; expected at least -1"
    ):
        env.get_buffer_timeout()
