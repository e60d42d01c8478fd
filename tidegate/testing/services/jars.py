"""Jars in the user's cache: fetched once, checked at every use, repaired when damaged.

`mvn` fetches them where it is installed, otherwise our own resolver does. Guarantee: the folder that `fetch_jars`
returns is complete. A set is gathered in a temporary folder and renamed when all of it is there, under a lock that
dies with its holder, so neither an interrupted nor a concurrent fetch is ever seen.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from tidegate.errors import UnavailableError
from tidegate.testing.services.repository import Coordinate, Repository, repository_url
from tidegate.testing.services.resolver import DOWNLOADS, resolve

__all__ = ["fetch_archive", "fetch_jars", "fetch_with_maven", "fetch_with_resolver"]

SUMS = "SHA1SUMS"
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def fetch_jars(roots: Sequence[Coordinate]) -> Path:
    """The folder with `roots` and everything they need at run time.

    Raises:
        UnavailableError: they are not in the cache and the repository does not give them.
    """
    return _fetched(roots, lambda folder: _fill(roots, folder))


def fetch_archive(root: Coordinate) -> Path:
    """The folder that the archive of `root` unpacks to, a `.tar.gz` with a program and all its jars.

    Raises:
        UnavailableError: it is not in the cache and the repository does not give it.
    """

    def unpack(folder: Path) -> None:
        repository = Repository(repository_url(Path.home() / ".m2" / "settings.xml"))
        with tarfile.open(fileobj=io.BytesIO(repository.read(root.path("tar.gz")))) as archive:
            archive.extractall(folder, filter="data")

    return _fetched([root], unpack)


def fetch_with_maven(mvn: str, roots: Sequence[Coordinate], folder: Path) -> None:
    """Let `mvn` copy the jars into `folder`; it obeys the user's settings by itself."""
    with tempfile.TemporaryDirectory(prefix="tidegate-mvn-") as project:
        pom = Path(project) / "pom.xml"
        pom.write_text(_pom(roots))
        options = ["-B", "-q", "--strict-checksums", "-f", str(pom)]
        goal = [COPY_GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        done = subprocess.run([mvn, *options, *goal], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line] or [
            "no output"
        ]
        raise UnavailableError(
            f"mvn could not fetch {roots[0]}: {lines[0].strip()}; check the network, or name a mirror in "
            "~/.m2/settings.xml"
        )


def fetch_with_resolver(roots: Sequence[Coordinate], folder: Path) -> None:
    """Download the jars into `folder` without `mvn`."""
    repository = Repository(repository_url(Path.home() / ".m2" / "settings.xml"))

    def download(coordinate: Coordinate) -> None:
        (folder / coordinate.jar).write_bytes(repository.read(coordinate.path("jar")))

    with ThreadPoolExecutor(DOWNLOADS) as pool:
        list(pool.map(download, resolve(roots, repository)))


def _fetched(roots: Sequence[Coordinate], fill: Callable[[Path], None]) -> Path:
    cache = _cache_folder()
    target = cache / "+".join(f"{root.artifact}-{root.version}" for root in roots)
    if _complete(target):
        return target
    with _locked(cache):
        if not _complete(target):
            for leftover in [target, *cache.glob(".fetch-*")]:
                shutil.rmtree(leftover, ignore_errors=True)
            _gather(target, fill)
    return target


def _fill(roots: Sequence[Coordinate], folder: Path) -> None:
    if mvn := shutil.which("mvn"):
        fetch_with_maven(mvn, roots, folder)
    else:
        fetch_with_resolver(roots, folder)


def _gather(target: Path, fill: Callable[[Path], None]) -> None:
    folder = Path(tempfile.mkdtemp(prefix=".fetch-", dir=target.parent))
    try:
        fill(folder)
        (folder / SUMS).write_text(
            "".join(f"{_sha1(jar)}  {jar.relative_to(folder)}\n" for jar in sorted(folder.rglob("*.jar")))
        )
        folder.chmod(0o755)
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _complete(target: Path) -> bool:
    try:
        lines = (target / SUMS).read_text().splitlines()
        return all(_sha1(target / name) == digest for digest, name in (line.split("  ") for line in lines))
    except (OSError, ValueError):
        return False


def _sha1(path: Path) -> str:
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tidegate" / "jars"


def _pom(roots: Sequence[Coordinate]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{escape(root.group)}</groupId><artifactId>{escape(root.artifact)}</artifactId>"
        f"<version>{escape(root.version)}</version></dependency>"
        for root in roots
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>tidegate</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )
