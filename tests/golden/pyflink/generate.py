"""Write the golden programs: each template with some of its choices, and records made from a seed.

    python -m tests.golden.pyflink.generate

A template is a TOML file. `text` is the program; `<name>` in it is replaced by what was chosen for `name`,
`<name.part>` by a part of it, `<records ...>` by records. Of all combinations those are taken that show the most
pairs of choices which no program has shown before, until there are `programs` of them.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from textwrap import indent
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
PROGRAMS: Final = HERE / "programs"
SEED: Final = 20_261_119
NAMES: Final = ("ann", "bob", "cem")
WORDS: Final = ("flink", "tide", "gate", "row", "state", "time")

Choice = dict[str, str]
"""The text of a choice by part; the part of one that has no others is called ''."""


SHARED: Final[dict[str, Any]] = {
    "mode": {"streaming": "", "batch": "env.set_runtime_mode(RuntimeExecutionMode.BATCH)"},
    "out": {
        "print": "result.print()\nenv.execute()",
        "collect": "with result.execute_and_collect() as records:\n    for record in records:\n        print(record)",
    },
}
"""Choices that many templates have; `also` names them."""

FRAGMENTS: Final[dict[str, Choice]] = {
    "env": {"": "env = StreamExecutionEnvironment.get_execution_environment()\nenv.set_parallelism(1)"},
    "collect": {"": SHARED["out"]["collect"]},
    "times": {
        "": """
class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(
    Duration.of_seconds(1)
).with_timestamp_assigner(PaymentTime())
"""
    },
}
"""Text that many templates use."""


def main() -> None:
    """Replace all programs; outputs of programs that are gone go, too."""
    written = {PROGRAMS / f"{name}.py": text for template in templates() for name, text in programs(template)}
    PROGRAMS.mkdir(exist_ok=True)
    for file in PROGRAMS.iterdir():
        if file.is_file() and PROGRAMS / f"{file.name.partition('.')[0]}.py" not in written:
            file.unlink()
    for file, text in written.items():
        file.write_text(text, encoding="utf-8")
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run([ruff, "check", "--quiet", "--select", "I", "--fix", PROGRAMS], check=True)
    subprocess.run([ruff, "format", "--quiet", PROGRAMS], check=True)
    print(f"{len(written)} programs in {PROGRAMS}")


def templates() -> Iterator[Path]:
    """All templates, by name."""
    yield from sorted((HERE / "templates").glob("*.toml"))


def programs(template: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each program of a template."""
    said = tomllib.loads(template.read_text(encoding="utf-8"))
    choices = {
        name: {label: each if isinstance(each, dict) else {"": each} for label, each in of.items()}
        for name, of in (
            said.get("choices", {}) | {name: SHARED[name] for name in said.get("also", ())}
        ).items()
    }
    chance = random.Random(f"{SEED} {template.stem}")
    for number, labels in enumerate(covering(choices, said["programs"], chance), 1):
        chosen = FRAGMENTS | {name: choices[name][label] for name, label in labels.items()}
        yield f"{template.stem}_{number:02}", program(said, labels, chosen, chance)


def covering(choices: dict[str, Any], count: int, chance: random.Random) -> list[dict[str, str]]:
    """Combinations of labels, the next one always showing the most pairs that were not shown before."""
    left = [dict(zip(choices, labels, strict=True)) for labels in product(*choices.values())]
    chance.shuffle(left)
    taken: list[dict[str, str]] = []
    shown: set[Any] = set()
    while left and len(taken) < count:
        best = max(left, key=lambda labels: len(pairs(labels) - shown))
        left.remove(best)
        taken.append(best)
        shown |= pairs(best)
    return taken


def pairs(labels: dict[str, str]) -> set[Any]:
    """Each choice, and each two of them."""
    items = list(labels.items())
    return {*items, *combinations(items, 2)}


def program(
    said: dict[str, Any], labels: dict[str, str], chosen: dict[str, Choice], chance: random.Random
) -> str:
    """The text of one program."""
    text: str = said["text"]
    while (filled := _filled(text, chosen)) != text:
        text = filled
    text = re.sub(r"<(\w+) (\d+)>", lambda found: repr(list(_RECORDS[found[1]](chance, int(found[2])))), text)
    shown = ", ".join(f"{name} {label}" for name, label in labels.items())
    head = f'"""{said["title"]}{f" ({shown})" if shown else ""}.\n\nCompared {_filled(said.get("compare", "in order"), chosen)}.\n"""'
    return f"{head}\n\n{imports(text)}\n\n{text.strip()}\n"


def _filled(text: str, chosen: dict[str, Choice]) -> str:
    """The text with choices in place of their marks; a mark alone on its line gives its indentation to all lines."""
    mark = rf"<({'|'.join(chosen)})(?:\.(\w+))?>"

    def part(found: re.Match[str]) -> str:
        return chosen[found[1]].get(found[2] or "", "").strip("\n")

    def block(found: re.Match[str]) -> str:
        inner = re.match(mark, found[2])
        return "" if inner is None or not (given := part(inner)) else indent(given, found[1]) + "\n"

    text = re.sub(rf"^( *)({mark})\n", block, text, flags=re.MULTILINE)
    return re.sub(mark, part, text)


def _payments(chance: random.Random, count: int) -> Iterator[tuple[str, int, int]]:
    time = 0
    for _ in range(count):
        time += chance.choice((0, 400, 900, 1_500, 1_500, 4_000))
        yield chance.choice(NAMES), chance.randint(1, 9), max(0, time - chance.choice((0, 0, 0, 700)))


def _gaps(chance: random.Random, count: int) -> Iterator[tuple[str, int | None]]:
    for _ in range(count):
        yield chance.choice(NAMES), chance.choice((None, 0, 1, 2, 3))


_RECORDS: Final[dict[str, Any]] = {
    "payments": _payments,
    "gaps": _gaps,
    "pairs": lambda chance, count: [(chance.choice(NAMES), chance.randint(1, 9)) for _ in range(count)],
    "numbers": lambda chance, count: [chance.randint(-9, 20) for _ in range(count)],
    "words": lambda chance, count: [
        " ".join(chance.sample(WORDS, chance.randint(1, 3))) for _ in range(count)
    ],
}

MODULES: Final[dict[str, str]] = {
    "pyflink.common": "Duration Instant Row RowKind Time Types WatermarkStrategy",
    "pyflink.common.watermark_strategy": "TimestampAssigner",
    "pyflink.datastream": """
        AggregateFunction AsyncDataStream AsyncFunction BroadcastProcessFunction CoFlatMapFunction CoMapFunction
        CoProcessFunction FilterFunction FlatMapFunction KeyedBroadcastProcessFunction KeyedCoProcessFunction
        KeyedProcessFunction KeySelector MapFunction OutputTag Partitioner ProcessFunction ProcessWindowFunction
        ReduceFunction RuntimeContext RuntimeExecutionMode StreamExecutionEnvironment TimeDomain WindowFunction""",
    "pyflink.datastream.connectors.number_seq": "NumberSequenceSource",
    "pyflink.datastream.functions": "AllWindowFunction ProcessAllWindowFunction",
    "pyflink.datastream.state": """
        AggregatingStateDescriptor ListStateDescriptor MapStateDescriptor ReducingStateDescriptor
        StateTtlConfig ValueStateDescriptor""",
    "pyflink.datastream.window": """
        ContinuousEventTimeTrigger CountTrigger CountSlidingWindowAssigner CountTumblingWindowAssigner
        EventTimeSessionWindows EventTimeTrigger GlobalWindows PurgingTrigger SessionWindowTimeGapExtractor
        SlidingEventTimeWindows TimeWindow Trigger TriggerResult TumblingEventTimeWindows""",
}
STANDARD: Final = ("datetime", "decimal", "json")


def imports(text: str) -> str:
    """Import lines for the names that a program uses."""
    used = set(re.findall(r"\b\w+\b", text))
    lines = [f"import {module}" for module in STANDARD if f"{module}." in text]
    for module, names in MODULES.items():
        found = sorted(used.intersection(names.split()))
        lines += [f"from {module} import {', '.join(found)}"] if found else []
    return "\n".join(lines)


if __name__ == "__main__":
    main()
