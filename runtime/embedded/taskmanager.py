"""Worker process: `python -P -m tidegate.runtime.embedded.taskmanager <pipe> <worker> <control> <output>...`.

The process that is started loads what every worker needs, forks one worker for each pair of a control connection and a
standard output, and from then on only says how workers end. Beside a worker's own number, the numbers are those of
inherited file descriptors whose other ends the JobManager holds. If that dies, or closes the supervisor pipe, all workers are
killed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection, Listener

from tidegate.clock import SYSTEM_CLOCK
from tidegate.runtime.embedded.messages import (
    Closed,
    Deployment,
    Gone,
    Inbox,
    LeaseLost,
    LeaseRenewed,
    Ping,
    Pong,
    Ready,
    Wake,
    WorkerBootstrap,
)
from tidegate.runtime.embedded.peers import Peers
from tidegate.runtime.embedded.worker import Worker, tell
from tidegate.runtime.process_signals import KillTimer, die_with_parent
from tidegate.runtime.shipping import adopt_main_classes, unpack
from tidegate.runtime.task.messages import Failed, FromSubtask
from tidegate.runtime.tracebacks import hide_engine, pack_error
from tidegate.runtime.worker_lease import WorkerLease

__all__ = ["collect_rarely", "main"]


def main() -> None:
    """Fork the workers and outlive them, or be one of them."""
    # Terminals and service managers signal the whole group; stopping is the JobManager's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # not SIG_IGN, which children would inherit
    die_with_parent()
    pipe, *inherited = map(int, sys.argv[1:])
    gc.freeze()  # what is loaded by now stays in memory that all share
    workers: dict[int, int] = {}
    while inherited:
        worker, control, output, *inherited = inherited
        pid = os.fork()
        if pid == 0:
            die_with_parent()
            # A process that holds an end prevents the other side from seeing that the owner has ended.
            for other in (pipe, *inherited[1::3], *inherited[2::3]):
                os.close(other)
            os.dup2(output, 1)
            os.close(output)
            _work(Connection(control))
            return
        os.close(control)
        os.close(output)
        workers[pid] = worker
    _outlive(workers, Connection(pipe))


def _outlive(workers: dict[int, int], pipe: Connection) -> None:
    """Report how each worker ended; none outlives the supervisor pipe."""
    running = dict(workers)

    def kill_at_end() -> None:
        with contextlib.suppress(EOFError, OSError):
            pipe.recv()
        for pid in list(running):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    threading.Thread(target=kill_at_end, daemon=True, name="tidegate-pipe").start()
    while running:
        pid, status = os.wait()
        worker = running.pop(pid)
        with contextlib.suppress(OSError):
            pipe.send(Gone(worker, pid, os.waitstatus_to_exitcode(status)))


def _work(control: Connection) -> None:
    """Serve one attempt of one job, then end."""
    bootstrap: WorkerBootstrap = control.recv()
    sys.path[:] = bootstrap.path
    with Listener(bootstrap.address, "AF_UNIX", authkey=bootstrap.token) as listener:
        control.send(Ready(bootstrap.worker, os.getpid()))
        deployment, addresses = unpack(control.recv_bytes())
        _serve(deployment, addresses, bootstrap.token, control, listener)
    control.send(Closed(bootstrap.worker))


def collect_rarely() -> None:
    """Look for garbage as rarely as suits a process that holds whole batches.

    What is loaded by now stays. Records come by thousands, and the search of Python's default after every 700 new
    objects costs a twentieth of an exchange and finds nothing.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _serve(
    deployment: Deployment, addresses: list[str], token: bytes, control: Connection, listener: Listener
) -> None:
    adopt_main_classes(deployment.main_classes)
    deployment.options.arm_faults(f"taskmanager-{deployment.worker}")
    collect_rarely()
    inbox = Inbox()
    peers = Peers(deployment.worker, addresses, token, inbox)
    peers.listen(listener)
    lock, lease = threading.Lock(), WorkerLease(SYSTEM_CLOCK, deployment.options.lease_ms, KillTimer())

    def report(message: FromSubtask | Pong) -> None:
        if isinstance(message, Failed):
            hide_engine(message.error)
            message = replace(message, cause=pack_error(message.error.__cause__))
        with lock:
            control.send(message)

    def pong() -> None:
        report(Pong(deployment.worker))

    threading.Thread(
        target=_listen, args=(control, inbox, pong, lease), daemon=True, name="tidegate-control"
    ).start()
    Worker(deployment, inbox, peers, report, SYSTEM_CLOCK, lease).run()
    peers.close()


def _listen(control: Connection, inbox: Inbox, pong: Callable[[], None], lease: WorkerLease) -> None:
    try:
        while True:
            message = control.recv()
            if isinstance(message, Ping):
                pong()
            elif isinstance(message, LeaseRenewed | LeaseLost):
                tell(lease, message)
                inbox.put(Wake())
            else:
                inbox.put(message)
    except (EOFError, OSError):
        os._exit(1)


if __name__ == "__main__":
    main()
