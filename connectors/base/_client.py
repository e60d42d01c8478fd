"""S3 client on botocore: objects of one bucket as files of a sink."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import IO, Any, Final

from tidegate.errors import ConfigError, MissingExtraError, TidegateError, UnavailableError

try:
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
    from botocore.session import get_session
except ImportError as error:
    raise MissingExtraError("s3 support is not installed; run: pip install 'tidegate[s3]'") from error

__all__ = ["Objects"]

_CHECKSUM: Final = "tidegate-xxh3"
_CHUNK: Final = 1 << 20
_DELETED_AT_ONCE: Final = 1000
_MOST_AT_ONCE: Final = 5 * 2**30
"""The bytes that a server takes, or copies, in one request."""

_PART: Final = 64 * 2**20
_MOST_PARTS: Final = 10_000
_GONE: Final = ("NoSuchKey", "404", "NotFound")
_NOT_FIRST: Final = ("PreconditionFailed", "ConditionalRequestConflict", "NotImplemented")
"""An object exists, is being written, or the server knows no conditions."""


class Objects:
    """Uploads, server-side copies and deletions; safe to call from any thread.

    Raises:
        ConfigError: the bucket is missing, or there are no credentials; from any method.
        UnavailableError: the server did not answer; from any method.
    """

    def __init__(self, bucket: str, endpoint: str | None, region: str | None) -> None:
        self._bucket = bucket
        self._client = _client(endpoint, region)

    def upload(self, key: str, file: IO[bytes], checksum: str) -> None:
        """Write an object, in parts if it is large; it appears when it is whole."""
        start = file.tell()
        size = file.seek(0, os.SEEK_END) - start
        file.seek(start)
        if size <= _MOST_AT_ONCE:
            self._call("put_object", Key=key, Body=file, Metadata={_CHECKSUM: checksum})
            return
        self._in_parts(key, size, checksum, "upload_part", lambda at, end: {"Body": file.read(end - at)})

    def upload_first(self, key: str, content: bytes) -> None:
        """Write an object unless it exists; servers may refuse the condition, and then nothing is written."""
        self._call("put_object", Key=key, Body=content, IfNoneMatch="*")

    def copy(self, source: str, key: str) -> bool:
        """Copy an object within the server, with its checksum, in parts if it is large; False if there is none."""
        found = self.look(source)
        if found is None:
            return False
        where, (size, checksum) = {"Bucket": self._bucket, "Key": source}, found
        if size <= _MOST_AT_ONCE:
            return self._call("copy_object", Key=key, CopySource=where) is not None

        def part(at: int, end: int) -> dict[str, Any]:
            return {"CopySource": where, "CopySourceRange": f"bytes={at}-{end - 1}"}

        return self._in_parts(key, size, checksum, "upload_part_copy", part)

    def look(self, key: str) -> tuple[int, str] | None:
        """The size of an object and the checksum it was uploaded with."""
        found = self._call("head_object", Key=key)
        return (
            None if found is None else (found["ContentLength"], found.get("Metadata", {}).get(_CHECKSUM, ""))
        )

    def download(self, key: str) -> IO[bytes]:
        """The content of an object.

        Raises:
            FileNotFoundError: there is none.
        """
        found = self._call("get_object", Key=key)
        if found is None:
            raise FileNotFoundError(key)
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
        for chunk in found["Body"].iter_chunks(_CHUNK):
            file.write(chunk)
        file.seek(0)
        return file

    def names(self, prefix: str) -> Iterator[str]:
        """What follows the prefix in the keys that begin with it."""
        more: dict[str, Any] = {}
        while True:
            found = self._call("list_objects_v2", Prefix=prefix, **more) or {}
            yield from (each["Key"].removeprefix(prefix) for each in found.get("Contents", ()))
            if not found.get("IsTruncated"):
                return
            more = {"ContinuationToken": found["NextContinuationToken"]}

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; missing ones are ignored."""
        listed = list(keys)
        for start in range(0, len(listed), _DELETED_AT_ONCE):
            some = [{"Key": key} for key in listed[start : start + _DELETED_AT_ONCE]]
            answer = self._call("delete_objects", Delete={"Objects": some, "Quiet": True}) or {}
            for failed in answer.get("Errors", ()):
                raise UnavailableError(
                    f"s3://{self._bucket}/{failed['Key']} was not deleted: {failed.get('Message')}; allow "
                    "s3:DeleteObject, or retry"
                )

    def _in_parts(
        self, key: str, size: int, checksum: str, request: str, part: Callable[[int, int], dict[str, Any]]
    ) -> bool:
        """Complete a multipart upload; False if the upload does not exist any more."""
        metadata = {_CHECKSUM: checksum}
        upload = self._call("create_multipart_upload", Key=key, Metadata=metadata)["UploadId"]
        this = {"Key": key, "UploadId": upload}
        length, parts = max(_PART, -(-size // _MOST_PARTS)), list[dict[str, Any]]()
        try:
            for at in range(0, size, length):
                content = part(at, min(at + length, size))
                answer = self._call(request, **this, PartNumber=len(parts) + 1, **content)
                if answer is None:
                    self._call("abort_multipart_upload", **this)
                    return False
                tag = answer.get("CopyPartResult", answer)["ETag"]
                parts.append({"ETag": tag, "PartNumber": len(parts) + 1})
            self._call("complete_multipart_upload", **this, MultipartUpload={"Parts": parts})
        except BaseException:
            # Parts are invisible, and nothing else would remove them.
            with contextlib.suppress(TidegateError):
                self._call("abort_multipart_upload", **this)
            raise
        return True

    def _call(self, name: str, **arguments: Any) -> Any:
        """The answer to a request; None if the object does not exist, or if a condition does not hold."""
        try:
            return getattr(self._client, name)(Bucket=self._bucket, **arguments)
        except NoCredentialsError as error:
            raise ConfigError(
                f"bucket {self._bucket!r} needs credentials; got none; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a "
                "profile, or a role of the machine"
            ) from error
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code == "NoSuchBucket":
                raise ConfigError(
                    f"bucket {self._bucket!r} does not exist; create it or name another one"
                ) from error
            if code in _GONE or ("IfNoneMatch" in arguments and code in _NOT_FIRST):
                return None
            raise self._unavailable(error) from error
        except BotoCoreError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"bucket {self._bucket!r} cannot be read or written: {error}; check endpoint, network and permissions"
        )


@cache
def _client(endpoint: str | None, region: str | None) -> Any:
    """One client for all openings: making one takes longer than many requests."""
    session = get_session()
    return session.create_client(
        "s3",
        region_name=region or session.get_config_variable("region") or "us-east-1",
        endpoint_url=endpoint,
        config=Config(
            connect_timeout=10,
            read_timeout=60,
            # Many servers that speak S3 know neither its newer checksums nor buckets in host names.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": "path" if endpoint else "auto"},
            ignore_configured_endpoint_urls=True,
        ),
    )
