"""Charts of a demo run, as SVG and for a terminal: throughput over time, kills, settled checkpoints.

Example:
    >>> from tidegate.runtime.cli.demo.timeline import Sample
    >>> steady = Timeline([Sample(float(second), 0, 1_000 * second, second) for second in range(5)])
    >>> sparkline(steady, 4)
    '████'
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, log10
from typing import Final

from tidegate.runtime.cli.demo.timeline import Stretch, Timeline

__all__ = ["picture", "sparkline"]

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_KILL: Final = "✗"

_WIDTH, _HEIGHT = 1_000, 490
_LEFT, _RIGHT, _TOP, _BOTTOM = 86, 970, 140, 372
_LANE: Final = 404

_INK, _FAINT, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_BLUE, _RED, _GREEN = "#2b6cb0", "#c53030", "#2f855a"


def sparkline(timeline: Timeline, width: int) -> str:
    """One line of blocks, with a cross where the job was killed."""
    rates = timeline.throughput(width)
    top = max(rates, default=0.0) or 1.0
    cells = [_BLOCKS[ceil(rate / top * (len(_BLOCKS) - 1) - 0.5)] for rate in rates]
    for kill in timeline.kills:
        cells[min(int(kill.at_s / max(timeline.ended_s, 0.001) * width), width - 1)] = _KILL
    return "".join(cells)


def picture(timeline: Timeline, title: str, *, passed: bool) -> str:
    """A page-wide SVG; `title` is the verdict."""
    runs = [timeline.stretches(run) for run in range(len(timeline.kills) + 1)]
    fastest = max((each.per_second for run in runs for each in run), default=0.0)
    frame = _Frame(max(timeline.ended_s, 0.001), _round_up(fastest))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
        '<defs><linearGradient id="water" x1="0" y1="0" x2="0" y2="1">'
        f'<stop offset="0" stop-color="{_BLUE}" stop-opacity="0.45"/>'
        f'<stop offset="1" stop-color="{_BLUE}" stop-opacity="0.05"/></linearGradient></defs>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="10" fill="white" stroke="{_GRID}"/>',
        *_heading(title, passed),
        *_axes(frame),
        *(part for run in runs for part in _curve(run, frame)),
        *_kills(timeline, frame),
        *_checkpoints(timeline, frame),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a moment and a rate lie on the page."""

    seconds: float
    top: float

    def x(self, at_s: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * at_s / self.seconds, 1)

    def y(self, rate: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * rate / self.top, 1)


def _heading(title: str, passed: bool) -> list[str]:
    color = _GREEN if passed else _RED
    sign = "M26 38 l7 8 l14 -17" if passed else "M27 28 l18 18 M45 28 l-18 18"
    claim, _, numbers = title.partition(": ")
    return [
        f'<path d="{sign}" fill="none" stroke="{color}" stroke-width="4" stroke-linecap="round"/>',
        _text(60, 45, claim, size=24, fill=color, weight=600),
        _text(60, 70, numbers, size=15),
        _text(_LEFT - 10, _TOP - 14, "records/s", fill=_FAINT, anchor="end"),
    ]


def _axes(frame: _Frame) -> list[str]:
    parts = []
    for quarter in range(5):
        rate = frame.top * quarter / 4
        y = frame.y(rate)
        parts.append(f'<path d="M{_LEFT} {y}H{_RIGHT}" stroke="{_GRID}"/>')
        parts.append(_text(_LEFT - 10, y + 4, f"{rate:,.0f}", fill=_FAINT, anchor="end"))
    step = 5 if frame.seconds > 12 else 1
    return parts + [
        _text(frame.x(second), _LANE + 26, f"{second} s", fill=_FAINT, anchor="middle")
        for second in range(0, int(frame.seconds) + 1, step)
    ]


def _curve(stretches: list[Stretch], frame: _Frame) -> list[str]:
    if not stretches:
        return []
    first, last = stretches[0], stretches[-1]
    middles = [(frame.x((each.from_s + each.to_s) / 2), frame.y(each.per_second)) for each in stretches]
    points = [(frame.x(first.from_s), _BOTTOM), *middles, (frame.x(last.to_s), middles[-1][1])]
    line = "L".join(f"{x} {y}" for x, y in points)
    return [
        f'<path d="M{line}V{_BOTTOM}Z" fill="url(#water)"/>',
        f'<path d="M{line}" fill="none" stroke="{_BLUE}" stroke-width="2.5" stroke-linejoin="round"/>',
    ]


def _kills(timeline: Timeline, frame: _Frame) -> list[str]:
    parts = []
    for kill in timeline.kills:
        x, gap_s = frame.x(kill.at_s), timeline.recovery_s(kill)
        parts.append(_text(x, _TOP - 30, "kill -9", fill=_RED, anchor="middle", weight=600))
        if gap_s is not None:
            back = frame.x(kill.at_s + gap_s)
            band = f'<rect x="{x}" y="{_TOP}" width="{back - x:.1f}" height="{_BOTTOM - _TOP}"'
            parts.append(f'{band} fill="{_RED}" opacity="0.08"/>')
            parts.append(_text(x, _TOP - 14, f"back in {gap_s:.1f} s", size=12, fill=_RED, anchor="middle"))
        parts.append(
            f'<path d="M{x} {_TOP - 8}V{_LANE}" stroke="{_RED}" stroke-width="1.5" stroke-dasharray="5 4"/>'
        )
    return parts


def _checkpoints(timeline: Timeline, frame: _Frame) -> list[str]:
    dots = [
        f'<circle cx="{frame.x(at_s)}" cy="{_LANE}" r="4.5" fill="{_GREEN}"/>'
        for at_s in timeline.checkpoints
    ]
    legend = (
        f"{len(timeline.checkpoints)} checkpoints settled: all output before a dot is visible, exactly once"
    )
    return [
        f'<path d="M{_LEFT} {_LANE}H{_RIGHT}" stroke="{_GRID}" stroke-width="2"/>',
        *dots,
        f'<circle cx="{_LEFT + 5}" cy="{_HEIGHT - 22}" r="4.5" fill="{_GREEN}"/>',
        _text(_LEFT + 17, _HEIGHT - 18, legend, fill=_INK),
    ]


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 13,
    fill: str = _INK,
    anchor: str = "start",
    weight: int = 400,
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def _round_up(rate: float) -> float:
    """The next number that divides well by four."""
    unit = 10.0 ** int(log10(max(rate, 4.0)))
    return next(step * unit for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * unit >= rate)
