"""S3 client on botocore: objects of one bucket with conditional writes, which pyarrow does not support.

This client never retries a request by itself: a repeated conditional write whose first answer was lost would
be reported as lost to another writer.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from tidegate.backends.spi import Decision
from tidegate.errors import ConfigError, MissingExtraError, UnavailableError

try:
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
    from botocore.session import get_session
except ImportError as error:
    raise MissingExtraError("s3 support is not installed; run: pip install 'tidegate[s3]'") from error

__all__ = ["Bucket", "Stored"]

Stored: TypeAlias = Literal["stored", "stale", "unknown"]
"""What a conditional write did: `unknown` if the answer was lost, or if the server asks to come again."""

_READS: Final = 3
_DELETED_AT_ONCE: Final = 1000
_DEFAULT_REGION: Final = "us-east-1"


class Bucket:
    """Reads, conditional writes and deletions; safe to call from any thread."""

    def __init__(self, name: str, endpoint: str | None, region: str | None) -> None:
        session = get_session()
        self.name = name
        self.region: str = region or session.get_config_variable("region") or _DEFAULT_REGION
        self._client: Any = session.create_client(
            "s3",
            region_name=self.region,
            endpoint_url=endpoint,
            config=Config(
                retries={"total_max_attempts": 1},
                connect_timeout=10,
                read_timeout=30,
                # Many servers that speak S3 know neither its newer checksums nor buckets in host names.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path" if endpoint else "auto"},
                ignore_configured_endpoint_urls=True,
            ),
        )

    def put(self, key: str, data: bytes, tag: str | None) -> Stored:
        """Write an object whose tag is still `tag`, or that does not exist yet."""
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        try:
            self._client.put_object(Bucket=self.name, Key=key, Body=data, **condition)
        except (BotoCoreError, ClientError) as error:
            if _is_stale(error):
                return "stale"
            if _is_doubtful(error):
                return "unknown"
            raise self._refused(key, error) from error
        return "stored"

    def get(self, key: str) -> Decision | None:
        """The object, with its tag."""
        for attempt in range(1, _READS + 1):
            try:
                answer = self._client.get_object(Bucket=self.name, Key=key)
                return Decision(answer["ETag"], answer["Body"].read())
            except (BotoCoreError, ClientError) as error:
                if _code(error) in ("NoSuchKey", "404"):
                    return None
                if attempt == _READS or not _is_doubtful(error):
                    raise self._refused(key, error) from error
        return None

    def delete(self, keys: list[str]) -> None:
        """Remove objects; missing ones are ignored."""
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            some = keys[start : start + _DELETED_AT_ONCE]
            objects = {"Objects": [{"Key": key} for key in some], "Quiet": True}
            try:
                answer = self._client.delete_objects(Bucket=self.name, Delete=objects)
            except (BotoCoreError, ClientError) as error:
                raise self._refused(some[0], error) from error
            for failed in answer.get("Errors", ()):
                raise UnavailableError(
                    f"s3://{self.name}/{failed['Key']} was not deleted: {failed.get('Message')}; allow "
                    "s3:DeleteObject, or retry"
                )

    def _refused(self, key: str, error: Exception) -> ConfigError | UnavailableError:
        where = f"s3://{self.name}/{key}"
        if isinstance(error, NoCredentialsError):
            return ConfigError(
                f"{where} needs credentials; got none; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a "
                "profile, or a role of the machine"
            )
        if _code(error) == "NoSuchBucket":
            return ConfigError(f"bucket {self.name!r} does not exist; create it or name another one")
        return UnavailableError(
            f"{where} cannot be read or written: {error}; check endpoint, network and permissions"
        )


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def _status(error: Exception) -> int:
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"]) if isinstance(error, ClientError) else 0


def _is_stale(error: Exception) -> bool:
    """412: another tag is current; 404: a tag is expected of an object that is gone."""
    return _status(error) == 412 or (_status(error) == 404 and _code(error) != "NoSuchBucket")


def _is_doubtful(error: Exception) -> bool:
    """No answer, a failure of the server, too many requests, or a conflict (409) with a write under way."""
    return isinstance(error, HTTPClientError) or _status(error) in (409, 429) or _status(error) >= 500
