"""HDFS checkpoint storage, for one writer: pyarrow's libhdfs has no atomic decisions.

A file of HDFS is there from its first byte on, so content goes to a temporary name and gets its own by a rename.
"""

from __future__ import annotations

from functools import cache
from urllib.parse import urlsplit

from tidegate.backends.spi import Blobs, CheckpointStorage
from tidegate.backends.storage._arrow import RenamedBlobs, hadoop_file_system
from tidegate.errors import ConfigError

__all__ = ["HadoopStorage"]


class HadoopStorage(CheckpointStorage):
    """Describes `hdfs://host:port/path`; Java, Hadoop and their settings are found as libhdfs finds them.

    Example:
        >>> HadoopStorage("hdfs://namenode:8020/state").url
        'hdfs://namenode:8020/state'

    Raises:
        ConfigError: the URL names no host or no path.
    """

    decisions = None

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if not parts.netloc or not parts.path.strip("/") or parts.query:
            raise ConfigError(f"invalid HDFS URL; got {url!r}; expected hdfs://host:port/path")
        self.url = url

    @property
    def blobs(self) -> Blobs:
        """The files."""
        return _opened(self.url)


@cache
def _opened(url: str) -> RenamedBlobs:
    system, root = hadoop_file_system(url)
    return RenamedBlobs(system, root.rstrip("/"), url.rstrip("/"))
