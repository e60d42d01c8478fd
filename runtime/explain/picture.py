"""The plan of a program as SVG: a card per chain with its steps, arrows for exchanges, the slots below.

A chain has one colour everywhere, so the slots show at a glance what shares a process with what.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape

from tidegate.ids import OperatorUid, Subtask
from tidegate.runtime.explain.explained import Explained
from tidegate.runtime.explain.text import counted, slot_note, summary
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.schedule.slots import Slot

__all__ = ["picture"]

_COLOURS: Final = ("#2a6f97", "#c8553d", "#588157", "#7b5ea7", "#b7791f", "#3d7c78", "#a23b72", "#5c677d")
_INK, _FAINT, _LINE = "#1f2933", "#6b7785", "#b4bec9"
_MARGIN, _CARD, _GAP_X, _GAP_Y = 32, 290, 150, 34
_HEADER, _LINE_HEIGHT, _STEP_PADDING, _LETTERS = 34, 17, 22, 33
_CHIP, _CHIP_HEIGHT, _CHIPS_PER_SLOT, _MOST_SLOTS = 78, 22, 8, 24


@dataclass(slots=True)
class _Card:
    """A chain at its place; `rows` is where each step's row begins and ends."""

    vertex: JobVertex
    number: int
    x: int
    y: int
    titles: dict[OperatorUid, list[str]]
    rows: dict[OperatorUid, tuple[int, int]] = field(default_factory=dict)
    height: int = 0

    @property
    def colour(self) -> str:
        return _colour(self.number)


def picture(program: Explained) -> str:
    """The picture as SVG."""
    cards = _laid_out(program)
    bottom = max(card.y + card.height for card in cards.values()) + 44
    slots, slots_width, slots_height = _slots(program, bottom)
    width = max(max(card.x for card in cards.values()) + _CARD + _MARGIN, slots_width, 640)
    height = bottom + slots_height + 24
    edges = [edge for vertex in program.job.vertices.values() for edge in vertex.outputs]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Inter, Helvetica, Arial, sans-serif">',
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{_FAINT}"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fbfcfd"/>',
        _text(_MARGIN, 40, program.name, size=20, weight=700),
        _text(_MARGIN, 62, summary(program), size=12, fill=_FAINT),
        *(_arrow(program, cards, edge) for edge in edges),
        *(_card(program, card) for card in cards.values()),
        *slots,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _laid_out(program: Explained) -> dict[str, _Card]:
    """Cards in columns by their distance from the sources, each column from the top."""
    columns: dict[str, int] = {}
    below: dict[int, int] = {}
    cards: dict[str, _Card] = {}
    for number, vertex in enumerate(program.job.vertices.values(), 1):
        column = max((columns[edge.source] + 1 for edge in vertex.inputs), default=0)
        columns[vertex.id] = column
        card = _sized(program, vertex, number, _MARGIN + column * (_CARD + _GAP_X), below.get(column, 88))
        below[column] = card.y + card.height + _GAP_Y
        cards[vertex.id] = card
    return cards


def _sized(program: Explained, vertex: JobVertex, number: int, x: int, y: int) -> _Card:
    nodes = program.visible(vertex)
    card = _Card(vertex, number, x, y, {node.uid: _wrapped(node.title) for node in nodes})
    top = y + _HEADER + 6
    for uid, lines in card.titles.items():
        bottom = top + len(lines) * _LINE_HEIGHT + _STEP_PADDING
        card.rows[uid] = (top, bottom)
        top = bottom
    card.height = top - y + (26 if program.state(vertex) else 6)
    return card


def _card(program: Explained, card: _Card) -> str:
    vertex, x, y = card.vertex, card.x, card.y
    parts = [
        f'<rect x="{x}" y="{y}" width="{_CARD}" height="{card.height}" rx="9" fill="white" stroke="{_LINE}"/>',
        f'<path d="M{x} {y + _HEADER}v{9 - _HEADER}a9 9 0 0 1 9 -9h{_CARD - 18}a9 9 0 0 1 9 9v{_HEADER - 9}z" '
        f'fill="{card.colour}"/>',
        _text(x + 14, y + 22, f"chain {card.number}", fill="white", weight=700),
        _text(
            x + _CARD - 14,
            y + 22,
            counted(vertex.parallelism, "subtask"),
            size=12,
            fill="white",
            anchor="end",
        ),
    ]
    middles = [(top + bottom) // 2 - 4 for top, bottom in card.rows.values()]
    parts += _threads(program, card, middles)
    for (uid, lines), middle in zip(card.titles.items(), middles, strict=True):
        parts.append(f'<circle cx="{x + 17}" cy="{middle}" r="4.5" fill="{card.colour}"/>')
        top = card.rows[uid][0] + 14
        parts += [_text(x + 32, top + i * _LINE_HEIGHT, line) for i, line in enumerate(lines)]
        parts.append(
            _text(x + 32, top + len(lines) * _LINE_HEIGHT - 2, _short(f"uid {uid}"), size=10, fill=_FAINT)
        )
    keyed = program.state(vertex)
    if keyed:
        note = f"state per key · {keyed[0].max_parallelism} key groups · {program.options.backend}"
        parts.append(_text(x + 14, y + card.height - 12, note, size=10, fill=card.colour, weight=600))
    return f"<g>{''.join(parts)}</g>"


def _threads(program: Explained, card: _Card, middles: list[int]) -> list[str]:
    """Lines from each step to those that follow it in the chain."""
    place = {uid: index for index, uid in enumerate(card.rows)}
    lines = []
    for uid, before in program.before(card.vertex).items():
        if before is None:
            continue
        x, above, below = card.x + 17, middles[place[before]], middles[place[uid]]
        straight = place[uid] == place[before] + 1
        way = f"V{below - 8}" if straight else f"C{x - 15} {above + 20} {x - 15} {below - 20} {x} {below - 8}"
        lines.append(
            f'<path d="M{x} {above + 8}{way}" fill="none" stroke="{card.colour}" stroke-opacity=".5" '
            'stroke-width="2"/>'
        )
    return lines


def _arrow(program: Explained, cards: dict[str, _Card], edge: JobEdge) -> str:
    """From the step's own row to the head of the next chain, with a label half way."""
    source, target = cards[edge.source], cards[edge.target]
    top, bottom = source.rows.get(edge.node) or next(reversed(source.rows.values()))
    x1, y1 = source.x + _CARD, (top + bottom) // 2 - 4
    x2, y2 = target.x - 2, target.y + _HEADER // 2 + 14 * target.vertex.inputs.index(edge)
    bend = max(60, (x2 - x1) // 2)
    # The label stands in the gap before the target, where no card can be.
    x, y = x2 - _GAP_X // 2, (y1 + y2) // 2 if x2 - x1 < 2 * _GAP_X else y2
    label = program.strategy(edge)
    wide = 8 * len(label) + 18
    between = f"{edge.source_parallelism} to {edge.target_parallelism}{', blocking' * edge.blocking}"
    return (
        f'<path d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" fill="none" stroke="{_FAINT}" '
        f'stroke-width="1.6" marker-end="url(#tip)"/>'
        f'<rect x="{x - wide // 2}" y="{y - 11}" width="{wide}" height="20" rx="10" fill="white" stroke="{_LINE}"/>'
        + _text(x, y + 3, label, size=11, fill=_INK, anchor="middle", weight=600)
        + _text(x, y + 22, between, size=10, anchor="middle")
    )


def _slots(program: Explained, top: int) -> tuple[list[str], int, int]:
    """The slots, grouped by task manager; with the width and height they take."""
    note = slot_note(program) + " (2 · 1 is subtask 1 of chain 2)" * bool(program.slots)
    parts = [
        _text(_MARGIN, top, "slots", size=15, weight=700),
        _text(_MARGIN + 50, top, note, size=12, fill=_FAINT),
    ]
    shared = list(program.shared().items())
    y, x, right, bottom = top + 20, _MARGIN, 0, top
    for manager, held in itertools.groupby(shared[:_MOST_SLOTS], key=lambda each: each[0].task_manager):
        slots = list(held)
        height = 34 + sum(_slot_height(subtasks) + 8 for _, subtasks in slots)
        width = max(_slot_width(subtasks) for _, subtasks in slots) + 20
        if x > _MARGIN and x + width > 1240:
            x, y = _MARGIN, bottom + 14
        parts += _task_manager(program, manager, slots, (x, y, width, height))
        bottom, right = max(bottom, y + height), max(right, x + width)
        x += width + 14
    end = bottom
    if len(shared) > _MOST_SLOTS:
        end += 24
        parts.append(_text(_MARGIN, end, f"and {len(shared) - _MOST_SLOTS} more slots", fill=_FAINT))
    wide = _MARGIN * 2 + 46 + 6 * len(note)
    return parts, max(right + _MARGIN, wide), end - top


def _task_manager(
    program: Explained,
    manager: int,
    slots: list[tuple[Slot, list[Subtask]]],
    frame: tuple[int, int, int, int],
) -> list[str]:
    x, y, width, height = frame
    chains = program.chains
    parts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="9" fill="#eef2f6" stroke="{_LINE}"/>',
        _text(x + 10, y + 20, f"task manager {manager + 1}", size=11, fill=_FAINT, weight=600),
    ]
    top = y + 30
    for _, subtasks in slots:
        inner = _slot_height(subtasks)
        parts.append(
            f'<rect x="{x + 8}" y="{top}" width="{width - 16}" height="{inner}" rx="6" fill="white" stroke="{_LINE}"/>'
        )
        for place, subtask in enumerate(subtasks):
            left = x + 13 + place % _CHIPS_PER_SLOT * _CHIP
            above = top + 5 + place // _CHIPS_PER_SLOT * (_CHIP_HEIGHT + 4)
            number = chains[subtask.vertex]
            parts.append(
                f'<rect x="{left}" y="{above}" width="{_CHIP - 5}" height="{_CHIP_HEIGHT}" rx="5" '
                f'fill="{_colour(number)}"/>'
            )
            name = f"{number} · {subtask.index + 1}"
            parts.append(
                _text(left + (_CHIP - 5) // 2, above + 15, name, size=11, fill="white", anchor="middle")
            )
        top += inner + 8
    return parts


def _slot_height(subtasks: list[Subtask]) -> int:
    rows = -(-len(subtasks) // _CHIPS_PER_SLOT)
    return rows * (_CHIP_HEIGHT + 4) + 6


def _slot_width(subtasks: list[Subtask]) -> int:
    return max(120, 5 + min(len(subtasks), _CHIPS_PER_SLOT) * _CHIP)


def _colour(number: int) -> str:
    return _COLOURS[(number - 1) % len(_COLOURS)]


def _short(text: str) -> str:
    return text if len(text) <= 38 else f"{text[:37]}…"


def _wrapped(title: str) -> list[str]:
    """Lines that fit into a card; long names end lines at spaces and opening brackets."""
    lines = [""]
    for word in re.findall(r"[^\s(]+[\s(]*|[\s(]+", title):
        if len(lines[-1]) + len(word.rstrip()) > _LETTERS and lines[-1]:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def _text(
    x: int,
    y: int,
    content: str,
    *,
    size: int = 13,
    fill: str = _INK,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}">{escape(content)}</text>'
    )
