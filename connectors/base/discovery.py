"""Checks of `tidegate check` on local files and directories, and on buckets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidegate.clock import new_id
from tidegate.connectors.spi import Finding
from tidegate.errors import ConfigError, TidegateError

__all__ = ["bucket_writable", "readable", "writable"]


def readable(paths: Iterable[Path]) -> Iterator[Finding]:
    """Whether each path is there and this user may read it.

    Example:
        >>> [(each.verdict, each.found) for each in readable([Path("/no/such/file")])]
        [('problem', '/no/such/file does not exist')]
    """
    for path in paths:
        if not path.exists():
            yield Finding("files", "problem", f"{path} does not exist", "create it, or correct the path")
        elif not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
            yield Finding(
                "files", "problem", f"{path} cannot be read by this user", f"sudo chmod a+rX {path}"
            )
        else:
            yield Finding("files", "ok", f"{path} can be read")


def writable(directory: Path) -> Finding:
    """Whether this user may write a directory, or make it.

    Example:
        >>> writable(Path("/dev/null/out")).found
        '/dev/null is not a directory'
    """
    there = next(path for path in (directory, *directory.parents) if path.exists())
    if not there.is_dir():
        return Finding("directory", "problem", f"{there} is not a directory", "set another directory")
    if not os.access(there, os.W_OK | os.X_OK):
        found = f"{there} cannot be written by this user"
        return Finding("directory", "problem", found, "set another directory, or change its owner")
    return Finding("directory", "ok", f"{directory} can be written")


def bucket_writable(url: str) -> Iterator[Finding]:
    """Whether a bucket can be listed, written, read and deleted from; an object is written for it and deleted.

    Raises:
        ConfigError: the URL makes no sense, the bucket does not exist, or there are no credentials.
        MissingExtraError: botocore is not installed.
    """
    from tidegate.connectors.base.bucket_files import BucketWriterStore

    folder, name = BucketWriterStore(url, f"preflight-{new_id(8)}"), "probe"

    def write() -> None:
        with folder.create(name) as file:
            file.write(b"probe")
            folder.end(name, file)

    refused = []
    for what, right, act in (
        ("listed", "s3:ListBucket", folder.make),
        ("written", "s3:PutObject", write),
        ("read", "s3:GetObject", lambda: folder.read(folder.path(name)).close()),
        ("deleted from", "s3:DeleteObject", lambda: folder.drop(name)),
    ):
        if "s3:PutObject" in refused:
            break  # there is nothing to read or delete
        try:
            act()
        except ConfigError:
            raise
        except (TidegateError, FileNotFoundError) as error:
            refused.append(right)
            yield Finding("bucket", "problem", f"{url} cannot be {what}: {error}", f"allow {right}")
    if not refused:
        yield Finding("bucket", "ok", f"{url} can be listed, written, read and deleted from")
