"""Options of checkpoint storages."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import ConfigError
from tidegate.options import option

__all__ = ["S3Options"]


@dataclass(frozen=True, slots=True)
class S3Options:
    """Where buckets are; a URL says it as `?endpoint=...&region=...`, and is stronger than a setting."""

    endpoint: str | None = option(
        "s3.endpoint", None, "S3 endpoint as http(s)://host:port, for servers other than Amazon's"
    )
    region: str | None = option("s3.region", None, "region of buckets; default: as AWS tools find it")

    def __post_init__(self) -> None:
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(f"invalid S3 endpoint; got {self.endpoint!r}; expected http(s)://host:port")
