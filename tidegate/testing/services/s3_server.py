"""Program of `S3Service`: moto behind a lock, because it may accept two simultaneous conditional writes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from threading import Lock
from typing import Any
from urllib.parse import unquote

__all__ = ["main"]

_CONDITIONS = ("If-Match", "If-None-Match")
_TOO_LARGE = b"<Error><Code>EntityTooLarge</Code><Message>larger than one request may be</Message></Error>"


def main(port: int, most_bytes: int, denied: Collection[str], conditions: Sequence[str]) -> None:
    """Serve until killed; 0 bytes means no limit."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server
    from werkzeug.test import Client

    moto, lock = DomainDispatcherApplication(create_backend_app), Lock()

    def is_too_large(environ: dict[str, Any]) -> bool:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        source = environ.get("HTTP_X_AMZ_COPY_SOURCE")
        if source is not None and "HTTP_X_AMZ_COPY_SOURCE_RANGE" not in environ:
            found = Client(moto).head(f"/{unquote(source).lstrip('/')}", headers=_signed(environ))
            size = int(found.headers.get("Content-Length", 0))
        return size > most_bytes > 0

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        for each in _CONDITIONS:
            if each not in conditions:
                environ.pop(f"HTTP_{each.upper().replace('-', '_')}", None)
        with lock:
            if is_too_large(environ):
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                start_response("400 Bad Request", [("Content-Type", "application/xml")])
                return [_TOO_LARGE]
            if (action := _action(environ)) in denied:
                return _denial(environ, start_response, action)
            return list(moto(environ, start_response))

    make_server("127.0.0.1", port, serve, threaded=True).serve_forever()


def _action(environ: dict[str, Any]) -> str:
    """The requested action; creating buckets is always allowed."""
    path, query = environ["PATH_INFO"].strip("/"), environ.get("QUERY_STRING", "")
    if environ["REQUEST_METHOD"] == "DELETE" or query == "delete":
        return "delete"
    if "list-type" in query:
        return "list"
    if "/" not in path:
        return "bucket"
    return "read" if environ["REQUEST_METHOD"] in ("GET", "HEAD") else "write"


def _denial(environ: dict[str, Any], start_response: Callable[..., Any], action: str) -> list[bytes]:
    """A refusal; where several objects are to be deleted, one for each, as at Amazon."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    reason = b"<Code>AccessDenied</Code><Message>Access Denied</Message>"
    if action == "delete" and environ["REQUEST_METHOD"] == "POST":
        keys = re.findall(rb"<Key>.*?</Key>", body)
        start_response("200 OK", [("Content-Type", "application/xml")])
        return [
            b"<DeleteResult>",
            *(b"<Error>" + key + reason + b"</Error>" for key in keys),
            b"</DeleteResult>",
        ]
    start_response("403 Forbidden", [("Content-Type", "application/xml")])
    return [b"<Error>" + reason + b"</Error>"]


def _signed(environ: dict[str, Any]) -> dict[str, str]:
    return {"Host": environ["HTTP_HOST"], "Authorization": environ.get("HTTP_AUTHORIZATION", "")}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4:])
