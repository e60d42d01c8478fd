"""Options from layers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tidegate.errors import ConfigError
from tidegate.options import (
    Guarantee,
    Layer,
    as_mapping,
    from_assignments,
    from_environ,
    from_toml,
    guard,
    load,
    option,
    prefixed,
    required,
)


@dataclass(frozen=True)
class Options:
    backend: Literal["heap", "rocksdb"] = option("state.backend", "heap", "where state lives")
    interval_ms: int = option("checkpoint.interval", 10_000, "time between checkpoints")
    fs_threshold_bytes: int = option("state.backend.fs.memory-threshold", 20_480, "what goes inline")
    parallelism: int = option("parallelism.default", 1, "subtasks of an operator")
    label: str = "no option"


def test_options_nobody_sets_keep_their_defaults() -> None:
    assert load(Options) == Options()
    assert load(Options, Layer("file", {})) == Options("heap", 10_000, 20_480, 1, "no option")


def test_the_strongest_layer_wins_key_by_key() -> None:
    operator = Layer("operator", {"parallelism.default": 4})
    environment = Layer("program", {"parallelism.default": 3, "state.backend": "rocksdb"})
    client = from_assignments(["parallelism.default=2", "checkpoint.interval=1 min"])
    system = Layer("file", {"parallelism.default": "1", "checkpoint.interval": 5})

    assert load(Options, operator, environment, client, system) == Options("rocksdb", 60_000, parallelism=4)
    assert load(Options, environment, client, system).parallelism == 3
    assert load(Options, client, system).parallelism == 2
    assert load(Options, system).parallelism == 1


def test_a_weak_layer_is_checked_although_it_is_overruled() -> None:
    with pytest.raises(
        ConfigError, match=r"option 'parallelism.default' in file has an invalid value; got 'x'; expected int"
    ):
        load(
            Options, Layer("program", {"parallelism.default": 1}), Layer("file", {"parallelism.default": "x"})
        )


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown option 'state.backendd' in file; did you mean 'state\.backend'\?"
    ):
        load(Options, Layer("file", {"state.backendd": "heap"}))
    with pytest.raises(
        ConfigError, match=r"unknown option 'zzz' in file; known are checkpoint.interval, parallelism"
    ):
        load(Options, Layer("file", {"zzz": 1}))


def test_a_field_without_a_key_cannot_be_set() -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'label' in file"):
        load(Options, Layer("file", {"label": "x"}))


def test_environment_variables_are_matched_whatever_the_separators() -> None:
    layer = from_environ(
        {
            "TIDEGATE_STATE_BACKEND": "rocksdb",
            "TIDEGATE_STATE_BACKEND_FS_MEMORY_THRESHOLD": "1 kb",
            "HOME": "/root",
            "XTIDEGATE_A": "b",
        }
    )

    assert load(Options, layer) == Options("rocksdb", fs_threshold_bytes=1_024)
    assert load(Options, from_environ({"APP_STATE_BACKEND": "rocksdb"}, prefix="APP_")).backend == "rocksdb"


def test_an_unknown_variable_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown option 'STATE_BACKENT' in environment; .*'STATE_BACKEND'\?"
    ):
        load(Options, from_environ({"TIDEGATE_STATE_BACKENT": "heap"}))


def test_a_variable_of_the_wrong_type_names_its_key_and_layer() -> None:
    with pytest.raises(
        ConfigError,
        match=r"option 'state.backend' in environment has an invalid value; got 'x'; expected one",
    ):
        load(Options, from_environ({"TIDEGATE_STATE_BACKEND": "x"}))


def test_only_environment_names_are_matched_loosely() -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'STATE_BACKEND' in file"):
        load(Options, Layer("file", {"STATE_BACKEND": "heap"}))
    with pytest.raises(ConfigError, match=r"unknown option 'state\.backend' in environment"):
        load(Options, from_environ({"TIDEGATE_state.backend": "heap"}))


def test_nested_tables_of_a_file_become_dotted_keys(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.toml"
    path.write_text('[state]\nbackend = "rocksdb"\n[checkpoint]\ninterval = "2 s"\n', encoding="utf-8")

    layer = from_toml(path)

    assert layer.values == {"state.backend": "rocksdb", "checkpoint.interval": "2 s"}
    assert load(Options, layer) == Options("rocksdb", 2_000)
    path.write_text('"state.backend" = "x"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"option 'state.backend' in {path} has an invalid value"):
        load(Options, from_toml(path))


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe", None], ids=["syntax", "encoding", "missing"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "tidegate.toml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=rf"configuration file {path} cannot be read: "):
        from_toml(path)


def test_assignments_may_hold_equals_signs_and_blanks() -> None:
    assert from_assignments(["a.b = c=d", "e="]).values == {"a.b": "c=d", "e": ""}


@pytest.mark.parametrize("assignment", ["state.backend", "=x", " =x", ""])
def test_an_assignment_without_a_key_or_value_is_refused(assignment: str) -> None:
    with pytest.raises(
        ConfigError, match=r"invalid option on the command line; got '.*'; expected key=value"
    ):
        from_assignments([assignment])


def test_options_are_written_as_they_are_read() -> None:
    options = Options("rocksdb", 1, 2, 3)

    assert as_mapping(options) == {
        "state.backend": "rocksdb",
        "checkpoint.interval": 1,
        "state.backend.fs.memory-threshold": 2,
        "parallelism.default": 3,
    }
    assert load(Options, Layer("copy", as_mapping(options))) == options


GUARANTEED = {"enable.auto.commit": Guarantee(False, "offsets belong to checkpoints")}


@pytest.mark.parametrize("value", [True, "true", 1, None])
def test_a_setting_that_breaks_a_promise_is_refused_by_name(value: Any) -> None:
    with pytest.raises(
        ConfigError,
        match=r"option 'enable.auto.commit' is fixed; got .*; expected False, because offsets belong to checkpoints; "
        "remove the option",
    ):
        guard({"enable.auto.commit": value}, GUARANTEED)


@pytest.mark.parametrize(
    "user", [{}, {"other": 1}, {"enable.auto.commit": False}, {"enable.auto.commit": "false"}]
)
def test_a_setting_that_keeps_every_promise_passes(user: dict[str, Any]) -> None:
    guard(user, GUARANTEED)
    assert GUARANTEED["enable.auto.commit"].value is False


@dataclass(frozen=True)
class Renamed:
    size: int = option("buffer.size", 1, "how large", old="buffer")


@pytest.mark.parametrize(
    "layer", [Layer("file", {"buffer": 2}), from_environ({"TIDEGATE_BUFFER": "2"})], ids=["key", "variable"]
)
def test_an_older_key_means_the_same_option(layer: Layer) -> None:
    assert load(Renamed, layer) == Renamed(2)
    assert load(Renamed, Layer("program", {"buffer.size": 3}), layer) == Renamed(3)


def test_two_keys_of_one_option_in_one_layer_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"'buffer' and 'buffer.size' in file are the same option; got both; expected"
    ):
        load(Renamed, Layer("file", {"buffer": 1, "buffer.size": 2}))


@dataclass(frozen=True)
class TableOptions:
    topic: str = required("topic", "where rows are")
    group: str = required("group", "who reads them")
    rate: int = option("rate", 5, "rows a second")
    properties: dict[str, str] = prefixed("properties.", "of the client")


def test_required_options_and_all_under_a_prefix_are_taken() -> None:
    strong = Layer("hint", {"properties.acks": "all"})
    weak = Layer("table", {"topic": "a", "group": "b", "properties.acks": "1", "properties.a.b": "c"})

    assert load(TableOptions, strong, weak) == TableOptions("a", "b", 5, {"acks": "all", "a.b": "c"})


def test_required_options_that_no_layer_has_are_named() -> None:
    with pytest.raises(
        ConfigError,
        match="required options 'topic', 'group' missing in table orders; expected a value for each",
    ):
        load(TableOptions, Layer("table orders", {}))
    with pytest.raises(ConfigError, match="required option 'group' missing in hint, table"):
        load(TableOptions, Layer("hint", {}), Layer("table", {"topic": "a"}))


def test_a_key_that_is_near_a_prefix_is_told_the_prefix() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown option 'propertie.x' in table; did you mean 'properties.\*'"
    ):
        load(TableOptions, Layer("table", {"topic": "a", "group": "b", "propertie.x": "1"}))
