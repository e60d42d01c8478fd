"""Workers of one attempt: threads of this process (inline) or separate processes (embedded).

Both have the same interface for the JobManager: post a message to a worker, receive worker messages, close.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO, Any, Literal, TextIO, TypeAlias

from tidegate.clock import Clock, new_token
from tidegate.runtime.embedded.messages import (
    Closed,
    Deployment,
    Gone,
    Inbox,
    LeaseLost,
    LeaseRenewed,
    Ping,
    Pong,
    Post,
    Ready,
    Shutdown,
    Wake,
    WorkerBootstrap,
)
from tidegate.runtime.embedded.peers import Peers
from tidegate.runtime.embedded.worker import Worker, tell
from tidegate.runtime.schedule.slots import task_manager_name
from tidegate.runtime.shipping import pack
from tidegate.runtime.task.messages import Failed
from tidegate.runtime.tracebacks import unpack_error
from tidegate.runtime.worker_lease import WorkerLease
from tidegate.runtime.working_directory import OwnedDirectory, short_directory

__all__ = ["Cluster", "InlineCluster", "MessageHandler", "ProcessCluster", "ShutdownMode", "WorkerLost"]

_GRACE_S = 10.0
_LAST_WORDS_S = 1.0
_IMPATIENCE_S = 1.0

MessageHandler: TypeAlias = Callable[[object], None]
"""Receives the messages of workers; called by any thread."""

ShutdownMode: TypeAlias = Literal["gracefully", "at once", "impatiently"]
"""How workers end: after closing their operators; killed if possible, otherwise at the end of the current step; or the same
with a short timeout, for a step that may never end."""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker process ended unexpectedly."""

    worker: int
    how: str


class Cluster(ABC):
    """The workers of one region of a job; their messages are passed to `deliver`, by threads of the cluster."""

    def __init__(self, deliver: MessageHandler) -> None:
        self._deliver = deliver

    @abstractmethod
    def start(self, workers: Sequence[int]) -> None:
        """Start these workers; each reports `Ready` or is lost."""

    @abstractmethod
    def deploy(self, deployments: Sequence[Deployment]) -> None:
        """Send each worker its deployment; all are ready."""

    @abstractmethod
    def post(self, worker: int, message: Post | Shutdown) -> None:
        """Send a message to a worker; the message is lost if the worker is lost."""

    @abstractmethod
    def ping(self, worker: int) -> None:
        """Ping a worker."""

    @abstractmethod
    def lease(self, said: LeaseRenewed | LeaseLost) -> None:
        """Send the state of the owner's lease to all workers; called by any thread."""

    @abstractmethod
    def close(self, how: ShutdownMode) -> None:
        """End all workers. All are ended, except a thread that is stuck and abandoned."""


class InlineCluster(Cluster):
    """All subtasks in one worker, in a thread of this process."""

    def __init__(self, deliver: MessageHandler, clock: Clock) -> None:
        super().__init__(deliver)
        self._clock = clock
        self._inbox = Inbox()
        self._lease: WorkerLease | None = None
        self._thread: threading.Thread | None = None

    def start(self, workers: Sequence[int]) -> None:
        """Nothing has to be loaded."""
        for worker in workers:
            self._deliver(Ready(worker, os.getpid()))

    def deploy(self, deployments: Sequence[Deployment]) -> None:
        """Start the thread."""
        (deployment,) = deployments
        peers = Peers(0, (), b"", self._inbox)
        self._lease = WorkerLease(self._clock, deployment.options.lease_ms)
        worker = Worker(deployment, self._inbox, peers, self._deliver, self._clock, self._lease)
        self._thread = threading.Thread(target=worker.run, daemon=True, name="tidegate-worker")
        self._thread.start()

    def post(self, worker: int, message: Post | Shutdown) -> None:
        """Put a message into the worker's inbox."""
        self._inbox.put(message)

    def ping(self, worker: int) -> None:
        """Answer at once: the worker is in this process."""
        self._deliver(Pong(worker))

    def lease(self, said: LeaseRenewed | LeaseLost) -> None:
        """Pass it to the thread."""
        if self._lease is not None:
            tell(self._lease, said)
            self._inbox.put(Wake())

    def close(self, how: ShutdownMode) -> None:
        """Request the thread to end and wait for it; a thread cannot be killed."""
        self._inbox.put(Shutdown())
        if self._thread is not None:
            self._thread.join(_IMPATIENCE_S if how == "impatiently" else None)


class ProcessCluster(Cluster):
    """One process per worker. Control goes over inherited socket pairs, data over sockets in a private directory."""

    def __init__(self, deliver: MessageHandler) -> None:
        super().__init__(deliver)
        self._sockets = OwnedDirectory("sockets", short_directory())
        self._token = new_token().encode()
        self._supervisor_pipe, self._supervisor_end = Pipe()
        self._gone: dict[int, Future[Gone]] = {}
        self._pids: dict[int, int] = {}
        self._controls: dict[int, Connection] = {}
        self._sending = threading.Lock()
        self._deployed = False
        self._addresses: list[str] = []
        self._forwarders: list[threading.Thread] = []
        self._listeners: list[threading.Thread] = []

    def start(self, workers: Sequence[int]) -> None:
        """Fork the workers from a fork server; each reports when it accepts connections of others."""
        self._addresses = [str(self._sockets.path / f"worker-{worker}") for worker in range(max(workers) + 1)]
        forwarded = not _is_terminal_or_file(sys.stdout)
        with contextlib.ExitStack() as given:
            given.callback(self._supervisor_end.close)
            inherited = [self._supervisor_end.fileno()]
            arguments = list(inherited)
            for worker in workers:
                control, theirs = Pipe()
                given.callback(theirs.close)
                output = self._output(given) if forwarded else given.enter_context(os.fdopen(os.dup(1), "wb"))
                inherited += [theirs.fileno(), output.fileno()]
                arguments += [worker, *inherited[-2:]]
                self._controls[worker] = control
                self._gone[worker] = Future()
            parent = subprocess.Popen(
                [sys.executable, "-P", "-m", "tidegate.runtime.embedded.taskmanager", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                pass_fds=inherited,
            )
        self._listeners.append(_thread(self._await_ends, parent))
        path = [entry or str(Path.cwd()) for entry in sys.path]
        for worker, control in self._controls.items():
            with contextlib.suppress(OSError):  # a process that has ended is detected when it should be ready
                control.send(WorkerBootstrap(worker, self._addresses[worker], self._token, path))
            self._listeners.append(_thread(self._listen, worker, control))

    def deploy(self, deployments: Sequence[Deployment]) -> None:
        """Send each process its deployment; a dead one is detected by its connection."""
        for deployment in deployments:
            part = pack(f"the part of {task_manager_name(deployment.worker)}", (deployment, self._addresses))
            with contextlib.suppress(OSError):
                self._controls[deployment.worker].send_bytes(part)
        self._deployed = True

    def post(self, worker: int, message: Post | Shutdown) -> None:
        """Send a message; a dead worker is detected by its connection."""
        self._send(worker, message)

    def ping(self, worker: int) -> None:
        """Ping a worker's process; its reader thread answers."""
        self._send(worker, Ping())

    def lease(self, said: LeaseRenewed | LeaseLost) -> None:
        """Send it to each process that is deployed."""
        for worker in self._controls if self._deployed else ():
            self._send(worker, said)

    def close(self, how: ShutdownMode) -> None:
        """End every process, after a grace period at the latest; then remove the sockets."""
        if how == "gracefully":
            for worker in self._controls:
                self.post(worker, Shutdown())
            wait(self._gone.values(), _GRACE_S)
        with contextlib.suppress(OSError):
            self._supervisor_pipe.send("let go")
        for forwarder in self._forwarders:
            # Wait for the last output of workers, with a timeout: a child of theirs may hold the pipe open.
            forwarder.join(_LAST_WORDS_S)
        # Messages that workers sent before they ended are still in flight.
        for listener in self._listeners:
            listener.join()
        for end in (*self._controls.values(), self._supervisor_pipe, self._supervisor_end):
            end.close()
        self._sockets.remove()

    def _send(self, worker: int, message: object) -> None:
        # A dead worker is detected by its connection, which is closed at the end.
        with self._sending, contextlib.suppress(OSError):
            self._controls[worker].send(message)

    def _output(self, given: contextlib.ExitStack) -> IO[bytes]:
        """A standard output for a worker, forwarded to this process."""
        ours, theirs = os.pipe()
        self._forwarders.append(_thread(_forward, os.fdopen(ours, "rb")))
        return given.enter_context(os.fdopen(theirs, "wb"))

    def _await_ends(self, parent: subprocess.Popen[bytes]) -> None:
        """Report the end of each worker, read from the fork server until that ends, too."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                gone: Gone = self._supervisor_pipe.recv()
                self._gone[gone.worker].set_result(gone)
        code = parent.wait()
        for worker, future in self._gone.items():
            if not future.done():
                future.set_result(Gone(worker, parent.pid, code))
                with contextlib.suppress(KeyError, ProcessLookupError):
                    os.kill(self._pids[worker], signal.SIGKILL)

    def _listen(self, worker: int, control: Connection) -> None:
        try:
            while True:
                message = control.recv()
                if isinstance(message, Ready):
                    self._pids[worker] = message.pid
                    if self._gone[worker].done():
                        os.kill(message.pid, signal.SIGKILL)
                if isinstance(message, Failed):
                    message.error.__cause__ = unpack_error(message.cause)
                self._deliver(message)
                if isinstance(message, Closed):
                    return
        except (EOFError, OSError):
            self._deliver(WorkerLost(worker, self._fate(worker)))

    def _fate(self, worker: int) -> str:
        gone = self._gone[worker].result()
        code = gone.exit_code
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"pid {gone.pid}, {how}"


def _thread(target: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True, name="tidegate-control")
    thread.start()
    return thread


def _is_terminal_or_file(stream: TextIO) -> bool:
    """Whether the inherited standard output of a child is the output of this process."""
    try:
        return stream.fileno() == 1
    except (OSError, ValueError, AttributeError):
        return False


def _forward(pipe: IO[bytes]) -> None:
    """Forward the output of a worker to the output of this process, such as a notebook cell."""
    for line in pipe:
        sys.stdout.write(line.decode(errors="replace"))
    pipe.close()
