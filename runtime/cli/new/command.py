"""`tidegate new job NAME` and `tidegate new connector NAME`: a directory that is ready to run, with its tests."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path

from tidegate.errors import ConfigError
from tidegate.runtime.cli.new.connector import CONNECTOR
from tidegate.runtime.cli.new.job import TEMPLATES

__all__ = ["register"]


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `new` to the commands."""
    parser = subparsers.add_parser("new", help="create the files of a new job or connector, with tests")
    kinds = parser.add_subparsers(title="skeletons", required=True, metavar="skeleton")

    job = kinds.add_parser("job", help="a program, its test, and sample input")
    job.add_argument("name", help="name of the job, such as `payments`")
    job.add_argument(
        "--template",
        default="files",
        help=f"systems that it reads and writes: {' or '.join(TEMPLATES)}; default: files",
    )
    job.set_defaults(run=_new_job)

    connector = kinds.add_parser("connector", help="a package with a source, a sink and their tests")
    connector.add_argument("name", help="name of the system, such as `redis`")
    connector.set_defaults(run=_new_connector)
    for kind in (job, connector):
        kind.add_argument(
            "--to",
            type=Path,
            default=Path(),
            help="parent of the new directory; default: the current directory",
        )


def _new_job(arguments: argparse.Namespace) -> int:
    """Write a job.

    Raises:
        ConfigError: there is no such template, the name cannot be used, or the directory is not empty.
    """
    name, template = arguments.name, arguments.template
    if template not in TEMPLATES:
        near = get_close_matches(template, TEMPLATES, n=1)
        raise ConfigError(
            f"unknown template {template!r}{f'; did you mean {near[0]!r}?' if near else ''}; expected one of: "
            f"{', '.join(TEMPLATES)}"
        )
    if not re.fullmatch(r"[a-z]([a-z0-9_-]*[a-z0-9])?", name):
        raise ConfigError(
            f"a job cannot be called {name!r}; expected lower case letters, digits, - and _, such as 'payments'"
        )
    _write(arguments.to / name, TEMPLATES[template], name)
    return 0


def _new_connector(arguments: argparse.Namespace) -> int:
    """Write a connector.

    Raises:
        ConfigError: the name cannot be a module's, or the directory is not empty.
    """
    name = arguments.name
    if not name.isidentifier() or name != name.lower():
        raise ConfigError(
            f"a connector cannot be called {name!r}; expected lower case letters, digits and _, such as 'redis'"
        )
    _write(arguments.to / f"tidegate-{name}", CONNECTOR, name)
    return 0


def _write(folder: Path, files: Mapping[str, str], name: str) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{folder} already exists and is not empty; remove it, or choose another name or --to"
        )
    for path, text in files.items():
        file = folder / _filled(path, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_filled(text, name), encoding="utf-8")
    print(
        f"{folder} is created; its README shows the next steps. Try it:\n\n"
        f"  cd {folder}\n  pip install -e '.[test]'\n  pytest"
    )


def _filled(text: str, name: str) -> str:
    names = {"@name@": name, "@Name@": name.title().replace("_", ""), "@version@": version("tidegate")}
    for placeholder, value in names.items():
        text = text.replace(placeholder, value)
    return text
