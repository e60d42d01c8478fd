"""S3 checkpoint storage, at Amazon or any server with conditional writes.

Files go through pyarrow. A decision is one object: `create` is a PUT with `If-None-Match: *`, `swap` a PUT with
`If-Match: <ETag>`; 412 and, for a missing object, 404 mean that another writer was first. A server that ignores these
conditions would let two writers win, so a write that must fail is tried with each of them before the first decision.

Every content is preceded by an id of its writer, because an ETag is a digest: the same bytes written twice would make
an old tag current again. The id also tells, when an answer was lost, whose write it was that arrived.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tidegate.backends.spi import Blobs, CheckpointStorage, Decision, Decisions
from tidegate.backends.storage._arrow import ArrowBlobs, s3_file_system
from tidegate.backends.storage._client import Bucket
from tidegate.backends.storage.options import S3Options
from tidegate.clock import new_id
from tidegate.components import OptionsOf
from tidegate.errors import ConfigError, UnavailableError
from tidegate.options import Layer, as_mapping, load

__all__ = ["S3Options", "S3Storage", "url_options"]

_KEY: Final = "s3."
"""What the key of an option begins with where it is a setting and not a part of a URL."""
_ATTEMPTS: Final = 3
_ID_LENGTH: Final = 16
_NEVER: Final = '"00000000000000000000000000000000"'


class S3Storage(CheckpointStorage):
    """Describes `s3://bucket/path?endpoint=...&region=...`; credentials are found as AWS tools find them.

    Example:
        >>> S3Storage("s3://state/orders?endpoint=http://127.0.0.1:9000").url
        's3://state/orders?endpoint=http://127.0.0.1:9000'

    Raises:
        ConfigError: the URL names no bucket or an unknown option, or the endpoint is no URL.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        options = url_options(url)
        if not parts.netloc or "@" in parts.netloc:
            raise ConfigError(f"invalid S3 URL; got {url!r}; expected s3://bucket/path, without credentials")
        self.url = url
        self._place = _Place(parts.netloc, unquote(parts.path).strip("/"), options)

    def with_options(self, options_of: OptionsOf) -> S3Storage:
        """The same storage, at the endpoint and in the region of the settings unless its URL names some."""
        known = as_mapping(load(S3Options, Layer("settings", options_of("storage.s3")))) | _in_url(self.url)
        query = "&".join(
            f"{key.removeprefix(_KEY)}={value}" for key, value in known.items() if value is not None
        )
        return S3Storage(f"{self.url.partition('?')[0]}{'?' * bool(query)}{query}")

    @property
    def blobs(self) -> Blobs:
        """The files."""
        return _opened(self._place)[0]

    @property
    def decisions(self) -> Decisions:
        """The decisions."""
        return _opened(self._place)[1]


def url_options(url: str) -> S3Options:
    """What follows the `?` of an S3 URL.

    Raises:
        ConfigError: it names an unknown option, or an endpoint that is not a URL.
    """
    return load(S3Options, Layer(f"storage URL {url!r}", _in_url(url)))


def _in_url(url: str) -> dict[str, str]:
    return {f"{_KEY}{name}": value for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True)}


@dataclass(frozen=True, slots=True)
class _Place:
    bucket: str
    path: str
    options: S3Options

    def key(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


class _S3Blobs(ArrowBlobs):
    """Deletes without pyarrow, which would leave an empty object for the folder of each file."""

    def __init__(self, place: _Place, bucket: Bucket) -> None:
        root = f"{place.bucket}/{place.path}".rstrip("/")
        super().__init__(s3_file_system(place.options.endpoint, bucket.region), root, f"s3://{root}")
        self._place = place
        self._bucket = bucket

    def delete(self, names: Iterable[str]) -> None:
        self._bucket.delete([self._place.key(name) for name in names])


class _S3Decisions(Decisions):
    def __init__(self, place: _Place, bucket: Bucket) -> None:
        self._place = place
        self._bucket = bucket
        self._trusted = False

    def create(self, name: str, data: bytes) -> bool:
        return self.swap(name, None, data)

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        self._check_conditions()
        key, content = self._place.key(name), new_id(_ID_LENGTH).encode() + data
        answer = self._bucket.put(key, content, old_tag)
        return answer == "stored" if answer != "unknown" else self._settle(key, content, old_tag)

    def read(self, name: str) -> Decision | None:
        found = self._bucket.get(self._place.key(name))
        return Decision(found.tag, found.data[_ID_LENGTH:]) if found is not None else None

    def _settle(self, key: str, content: bytes, old_tag: str | None) -> bool:
        """Resolve a write whose answer was lost; repeat it as long as it had no effect."""
        for _ in range(_ATTEMPTS):
            found = self._bucket.get(key)
            if found is not None and found.data == content:
                return True
            if (found.tag if found is not None else None) != old_tag:
                break
            # Should the lost request arrive late, it writes these same bytes or fails.
            if self._bucket.put(key, content, old_tag) == "stored":
                return True
        raise UnavailableError(
            f"s3://{self._bucket.name}/{key}: the outcome of a write is unknown; read it before the next write"
        )

    def _check_conditions(self) -> None:
        if self._trusted:
            return
        key = self._place.key(f".conditions-{new_id()}")
        ignored = None
        try:
            if not self._refuses(key, _NEVER):
                ignored = "If-Match"
            elif self._refuses(key, None) or not self._refuses(key, None):
                # The first write makes the object, the second must see it.
                ignored = "If-None-Match"
        finally:
            self._bucket.delete([key])
        if ignored is not None:
            raise ConfigError(
                f"the server of bucket {self._bucket.name!r} ignores {ignored}, so two writers could both "
                "succeed; use a server with conditional writes"
            )
        self._trusted = True

    def _refuses(self, key: str, tag: str | None) -> bool:
        """Whether a write with a condition is refused."""
        answer = self._bucket.put(key, b"", tag)
        if answer == "unknown":
            raise UnavailableError(
                f"s3://{self._bucket.name}/{key} cannot be read or written: no answer to a write; check endpoint, "
                "network and permissions"
            )
        return answer == "stale"


@cache
def _opened(place: _Place) -> tuple[_S3Blobs, _S3Decisions]:
    """One client for all openings of a place: making one takes longer than many requests."""
    bucket = Bucket(place.bucket, place.options.endpoint, place.options.region)
    return _S3Blobs(place, bucket), _S3Decisions(place, bucket)
