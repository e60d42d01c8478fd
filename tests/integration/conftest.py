from __future__ import annotations

from tidegate.testing.services.fixtures import (
    kafka as kafka,
    postgres as postgres,
    s3 as s3,
    schema_registry as schema_registry,
)
