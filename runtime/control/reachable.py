"""Makes a run reachable while it is alive: by control socket, and by HTTP if configured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.clock import SYSTEM_CLOCK, new_token
from tidegate.ids import FencingTerm
from tidegate.runtime.client import JobClient
from tidegate.runtime.control.handler import CommandHandler
from tidegate.runtime.control.jobs import Job, noted
from tidegate.runtime.control.server import listening
from tidegate.runtime.observe.http import Subject, serving
from tidegate.runtime.status import RunStatus
from tidegate.twophase.process import this_process

if TYPE_CHECKING:
    from tidegate.runtime.job import Startup

__all__ = ["reachable"]


@contextlib.contextmanager
def reachable(startup: Startup, client: JobClient, status: RunStatus, root: str) -> Iterator[None]:
    """Accept requests and commands for the run until the end of the block.

    If the control socket cannot be opened, the run continues with a message; a configured HTTP server is required.

    Raises:
        ConfigError: the port for HTTP is taken.
    """
    program = startup.program
    options, token = program.options, new_token()
    started_ms = SYSTEM_CLOCK.now_ms()
    with contextlib.ExitStack() as stack:
        http = None
        if options.http_port is not None:
            subject = Subject(program.name, program.pipeline, startup.run, options.target)
            place = options.http_address, options.http_port
            http = stack.enter_context(serving(subject, lambda: status.latest, place))
            startup.say(f"metrics at {http}/metrics, status at {http}/status")
        try:
            desk = CommandHandler(client, lambda: startup.pipeline.acquired, lambda: status.latest)
            job = Job(
                run=startup.run,
                name=program.name,
                pipeline=program.pipeline,
                target=options.target,
                root=root,
                started_ms=started_ms,
                process=this_process(FencingTerm(0), startup.run),
                socket=stack.enter_context(listening(desk.answer, token)),
                token=token,
                http=http,
            )
            stack.enter_context(noted(job))
        except (OSError, RuntimeError) as error:
            startup.say(f"tidegate list, stop and other commands cannot reach this job: {error}")
        yield
