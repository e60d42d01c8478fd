"""Schema registry service for tests and experiments: Apicurio, which speaks Confluent's protocol.

It is fetched once from Maven Central, about 140 MB, and keeps everything in memory, so a killed one has forgotten it.
New schemas of a subject have to be such that their readers understand what was written before.

Example:
    with SchemaRegistryService() as registry:
        SchemaRegistry(registry.url)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tidegate.testing.services.jars import fetch_archive
from tidegate.testing.services.java import find_java
from tidegate.testing.services.process import LOOPBACK
from tidegate.testing.services.repository import Coordinate
from tidegate.testing.services.service import Service

__all__ = ["SchemaRegistryService"]

APICURIO = Coordinate("io.apicurio", "apicurio-registry-app", "2.6.13.Final", "all")
JVM_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class SchemaRegistryService(Service):
    """One registry on a free loopback port."""

    name = "schema registry"

    @property
    def url(self) -> str:
        """What clients of Confluent's protocol want."""
        return f"http://{LOOPBACK}:{self.port}/apis/ccompat/v7"

    @property
    def usage(self) -> str:
        """A schema that is registered and asked for."""
        return (
            "from tidegate.connectors.formats import SchemaRegistry\n"
            f'client = SchemaRegistry("{self.url}").client()\n'
            'number = client.number("ids-value", "AVRO", \'"long"\', register=True)\n'
            "print(client.schema(number))\n"
        )

    def _check(self) -> None:
        self._java = find_java()
        self._program = fetch_archive(APICURIO) / f"{APICURIO.artifact}-{APICURIO.version}-runner.jar"

    def _prepare(self) -> None:
        """Nothing is kept on disk."""

    def _boot(self) -> None:
        super()._boot()
        self._put("/config", {"compatibility": "BACKWARD"})

    def _command(self) -> Sequence[str]:
        where = (f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={self.port}")
        return [str(self._java), *JVM_OPTIONS, *where, "-jar", str(self._program)]

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/subjects", timeout=1) as answer:
                return bool(answer.status == 200)
        except HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    def _put(self, path: str, body: dict[str, str]) -> None:
        headers = {"Content-Type": "application/json"}
        request = Request(self.url + path, json.dumps(body).encode(), headers, method="PUT")
        with urlopen(request, timeout=20):
            pass
