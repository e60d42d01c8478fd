"""Finds the records that changed state by reading them again from the program's sources."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.elements import RecordOrigin
from tidegate.ids import PipelineId
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.checkpoint.timeline import Difference
from tidegate.runtime.cli.explain import launch_of
from tidegate.runtime.cli.run import add_program
from tidegate.runtime.job import Program
from tidegate.runtime.launch import default_parallelism, job_name
from tidegate.runtime.record_lookup import find_records

__all__ = ["Records", "records_of"]

Records = dict[RecordOrigin, Any]


def records_of(program: Path | None, before: Manifest | None, found: Iterable[Difference]) -> Records:
    """What made these differences, as far as sources still have it; nothing without a program.

    The program's file is run up to its first `execute`. What its sources have behind `before` is read from there.

    Raises:
        ConfigError: the file does not exist or executes no program.
        UnavailableError: a source did not answer.
    """
    origins = {each.cause for each in found if isinstance(each.cause, RecordOrigin)}
    if program is None or not origins:
        return {}
    parser = argparse.ArgumentParser()
    add_program(parser)
    launch = launch_of(parser.parse_args([str(program)]))
    options = launch.options
    written = Program(job_name(launch), PipelineId(""), launch.steps, options, default_parallelism(options))
    return find_records(written.graph(before), before, origins, SYSTEM_CLOCK)
