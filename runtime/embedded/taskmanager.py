"""The process of one worker: `python -P -m tidegate.runtime.embedded.taskmanager <file descriptor>`.

It inherits one end of a socket pair from its JobManager and lives only as long as the other end is open: if the
JobManager dies, so do its workers.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from dataclasses import replace
from multiprocessing.connection import Connection, Listener

from tidegate.clock import SYSTEM_CLOCK
from tidegate.runtime.embedded.deploy import Deployment
from tidegate.runtime.embedded.handshake import Ended, Invitation, Ready
from tidegate.runtime.embedded.inbox import Inbox
from tidegate.runtime.embedded.peers import Peers
from tidegate.runtime.embedded.worker import Worker
from tidegate.runtime.shipping import adopt_main_classes, unpack
from tidegate.runtime.task.messages import Failed, FromSubtask
from tidegate.runtime.tracebacks import carry, hide_engine

__all__ = ["collect_rarely", "main"]


def main() -> None:
    """Serve one attempt of one job, then end."""
    # Terminals and service managers signal the whole group; stopping is the JobManager's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # not SIG_IGN, which children would inherit
    control = Connection(int(sys.argv[1]))
    invitation: Invitation = control.recv()
    sys.path[:] = invitation.path
    with Listener(invitation.address, "AF_UNIX", authkey=invitation.token) as listener:
        control.send(Ready(invitation.worker))
        deployment, addresses = unpack(control.recv_bytes())
        _serve(deployment, addresses, invitation.token, control, listener)
    control.send(Ended(invitation.worker))


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
    lock = threading.Lock()

    def report(message: FromSubtask) -> None:
        if isinstance(message, Failed):
            hide_engine(message.error)
            message = replace(message, cause=carry(message.error.__cause__))
        with lock:
            control.send(message)

    threading.Thread(target=_listen, args=(control, inbox), daemon=True, name="tidegate-control").start()
    Worker(deployment, inbox, peers, report, SYSTEM_CLOCK).run()
    peers.close()


def _listen(control: Connection, inbox: Inbox) -> None:
    try:
        while True:
            inbox.put(control.recv())
    except (EOFError, OSError):
        os._exit(1)


if __name__ == "__main__":
    main()
