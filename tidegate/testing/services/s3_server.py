"""The program of `S3Service`: moto behind a lock, because its own answers to simultaneous conditions may both be yes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

__all__ = ["main"]


def main(port: int, conditions: bool) -> None:
    """Serve until killed."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    moto, lock = DomainDispatcherApplication(create_backend_app), Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not conditions:
            environ.pop("HTTP_IF_MATCH", None)
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with lock:
            return list(moto(environ, start_response))

    make_server("127.0.0.1", port, serve, threaded=True).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "on")
