"""`tidegate dev kafka|postgres|spark`: runs a real server on this machine until Ctrl-C."""

from __future__ import annotations

import argparse
import importlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tidegate.testing.services import Service

__all__ = ["register", "run"]

# The kits lie above the runtime and are looked up by name, as any other plug-in: the runtime works without them.
_SERVICES_MODULE = "tidegate.testing.services"
_SERVICES = {"kafka": "KafkaService", "postgres": "PostgresService", "spark": "SparkService"}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `dev` to the commands."""
    parser = subparsers.add_parser(
        "dev", help="run a Kafka broker, a Postgres server or a Spark cluster on this machine"
    )
    parser.add_argument("service", choices=sorted(_SERVICES), help="which server")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; default: a free one")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Start the server, say how to connect, and wait for Ctrl-C or SIGTERM.

    Raises:
        TidegateError: it cannot start, or ended by itself; the message says why and what to do.
    """
    service = _make(arguments.service, arguments.port)
    try:
        with _interruptible():
            _say(f"starting {service.name}; the first start may download it")
            with service:
                _say(
                    f"{service.name} is ready on 127.0.0.1:{service.port}; Ctrl-C stops it and removes its data"
                )
                _say(f"try in Python:\n\n{service.usage}")
                service.wait()
    except KeyboardInterrupt:
        _say(f"{service.name} is stopped")
    return 0


def _make(name: str, port: int) -> Service:
    service: Service = getattr(importlib.import_module(_SERVICES_MODULE), _SERVICES[name])(port=port)
    return service


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, and Ctrl-C also where the shell made it ignored."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    print(text, flush=True)
