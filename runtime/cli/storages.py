"""Selects the checkpoint storage of a command."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage import open_storage
from tidegate.options import load
from tidegate.runtime.options import JobOptions, client_layers, default_root

__all__ = ["chosen_storage"]


def chosen_storage(arguments: argparse.Namespace) -> CheckpointStorage:
    """The one of `--root`, else the one that a program in this directory would use.

    Raises:
        ConfigError: a setting is wrong.
    """
    options = load(JobOptions, *client_layers(os.environ, Path.cwd()))
    root = arguments.root or options.root or default_root(os.environ)
    return open_storage(root, options.new_mode, options.components)
