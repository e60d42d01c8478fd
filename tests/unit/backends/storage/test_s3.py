"""What an S3 URL may say; what the storage does is in the conformance suite and the integration tests."""

from __future__ import annotations

import pytest

from tidegate.backends.storage import open_storage
from tidegate.backends.storage.s3 import S3Storage
from tidegate.errors import ConfigError


def test_an_s3_storage_is_found_by_its_url_and_opens_nothing() -> None:
    storage = open_storage("s3://state/orders?endpoint=https://nobody.invalid&region=eu-west-1")
    assert type(storage) is S3Storage
    assert storage.url == "s3://state/orders?endpoint=https://nobody.invalid&region=eu-west-1"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("s3:///path", "invalid S3 URL; got", id="no bucket"),
        pytest.param("s3://key:word@bucket/x", "invalid S3 URL; got .*without credentials", id="credentials"),
        pytest.param("s3://b/x?endpoint=host:9000", "invalid S3 endpoint; got 'host:9000'", id="endpoint"),
        pytest.param("s3://b/x?regoin=eu", "unknown option 's3.regoin' in storage URL .*did you mean 's3.region'", id="option"),
    ],
)  # fmt: skip
def test_unclear_urls_are_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_storage(url)
