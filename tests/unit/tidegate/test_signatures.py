"""What PyFlink's functions take, ours take: the same names, in the same places, and optional where they are there."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "pyflink" / "signatures.txt"

BUILT = "made by a method of the stream or environment, not by its constructor"
INSIDE = "made by the framework around an object of Java's"
OTHERWISE = "of() and with_...() make it, as in Java"

DIFFERENT: dict[str, str] = {
    "pyflink.common.time.Time": OTHERWISE,
    "pyflink.common.typeinfo.TypeInformation": "Types.<NAME>() makes it",
    "pyflink.datastream.connectors.base.Sink": INSIDE,
    "pyflink.datastream.connectors.base.Source": INSIDE,
    "pyflink.datastream.data_stream.BroadcastConnectedStream": BUILT,
    "pyflink.datastream.data_stream.BroadcastStream": BUILT,
    "pyflink.datastream.data_stream.ConnectedStreams": BUILT,
    "pyflink.datastream.data_stream.WindowedStream": BUILT,
    "pyflink.datastream.functions.SinkFunction": INSIDE,
    "pyflink.datastream.functions.SourceFunction": INSIDE,
    "pyflink.datastream.window.CountSlidingWindowAssigner": OTHERWISE,
    "pyflink.datastream.window.CountTumblingWindowAssigner": OTHERWISE,
}


def signatures() -> list[tuple[str, list[str]]]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()[1:]
    pairs = (line.removesuffix(")").split("(", 1) for line in lines)
    return [(name, taken.split(", ") if taken else []) for name, taken in pairs]


def found(name: str) -> Any:
    """What we have under a name of PyFlink's, None if it is not there."""
    parts = ["tidegate", *name.split(".")[1:]]
    for end in range(len(parts), 0, -1):
        try:
            here: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for at, part in enumerate(parts[end:], end):
            if at == len(parts) - 1 and inspect.isclass(here):
                return inspect.getattr_static(here, part, None)
            here = getattr(here, part, None)
        return here
    return None


def parameters(function: Any) -> list[inspect.Parameter] | None:
    """What a function or class takes without the object itself; None for what cannot be called."""
    if inspect.isclass(function):
        return list(inspect.signature(function).parameters.values())
    bare = isinstance(function, staticmethod) or not inspect.isfunction(
        getattr(function, "__func__", function)
    )
    inner = getattr(function, "__func__", function)
    if not callable(inner) or isinstance(inner, property):
        return None
    taken = list(inspect.signature(inner).parameters.values())
    return taken if bare or (taken[:1] and taken[0].name not in ("self", "cls")) else taken[1:]


def unlike(theirs: list[str], ours: list[inspect.Parameter]) -> str | None:
    """The first thing that a call written for PyFlink would stumble over."""
    kinds = {each.kind for each in ours}
    places = [each for each in ours if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    for place, parameter in enumerate(theirs):
        name = parameter.strip("*=")
        if parameter.startswith("**"):
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                return f"takes no **{name}"
        elif parameter.startswith("*"):
            if inspect.Parameter.VAR_POSITIONAL not in kinds:
                return f"takes no *{name}"
        elif place >= len(places) or places[place].name != name:
            return f"has no {name!r} at place {place}"
        elif places[place].kind is inspect.Parameter.POSITIONAL_ONLY:
            return f"takes {name!r} by place only"
        elif parameter.endswith("=") and places[place].default is inspect.Parameter.empty:
            return f"does not let {name!r} out"
    required = [each.name for each in places[len(theirs) :] if each.default is inspect.Parameter.empty]
    return f"also needs {required}" if required else None


def test_calls_written_for_pyflink_fit() -> None:
    wrong = {}
    for name, theirs in signatures():
        ours = parameters(found(name))
        problem = unlike(theirs, ours) if ours is not None else None
        if problem is not None:
            wrong[name] = problem

    assert wrong.keys() == DIFFERENT.keys(), "\n".join(f"{name} {what}" for name, what in wrong.items())
