"""S3 service for tests and experiments: moto, one request at a time.

It keeps everything in memory, so a killed server has forgotten it. Any credentials are taken.

Example:
    with S3Service() as s3:
        s3.new_bucket()
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from urllib.request import Request, urlopen

from tidegate.clock import new_id
from tidegate.errors import MissingExtraError
from tidegate.testing.services.process import LOOPBACK
from tidegate.testing.services.service import Service

__all__ = ["S3Service"]


class S3Service(Service):
    """One server.

    Args:
        port: Where it listens; 0 takes a free one.
        conditions: The headers with conditions that it heeds; others are ignored, as by some servers.
        most_bytes: What it takes, or copies, in one request; None without a limit.
        denied: What its users may not do, of `list`, `read`, `write` and `delete`.
    """

    name = "s3"

    def __init__(
        self,
        *,
        port: int = 0,
        conditions: Sequence[str] = ("If-Match", "If-None-Match"),
        most_bytes: int | None = None,
        denied: Sequence[str] = (),
    ) -> None:
        super().__init__(port=port)
        self._conditions = conditions
        self._most_bytes = most_bytes
        self._denied = denied

    @property
    def endpoint(self) -> str:
        """Where clients connect."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def usage(self) -> str:
        """A file in a new bucket."""
        return (
            "from tidegate.backends.storage import open_storage\n"
            f'open_storage("{self.new_bucket()}").blobs.put("hello", b"hello")\n'
        )

    def new_bucket(self) -> str:
        """Make a bucket; returns the storage URL of a folder in it."""
        bucket = f"bucket-{new_id()}"
        with urlopen(Request(f"{self.endpoint}/{bucket}", method="PUT"), timeout=20):
            return f"s3://{bucket}/state?endpoint={self.endpoint}"

    def _check(self) -> None:
        if find_spec("moto") is None:
            raise MissingExtraError(
                "moto, which contains the S3 server, is not installed; run: pip install 'moto[s3]' flask "
                "flask-cors"
            )

    def _prepare(self) -> None:
        """Nothing is kept on disk."""

    def _command(self) -> Sequence[str]:
        module = "tidegate.testing.services.s3_server"
        limit = str(self._most_bytes or 0)
        return [
            sys.executable,
            "-P",
            "-m",
            module,
            str(self.port),
            limit,
            ",".join(self._denied),
            *self._conditions,
        ]

    def _answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1):
                return True
        except OSError:
            return False
