from __future__ import annotations

from tidegate.testing.services.fixtures import kafka as kafka
from tidegate.testing.services.fixtures import postgres as postgres
