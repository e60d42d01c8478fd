"""A bar chart as SVG text, without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["bar_chart"]

ROW, LABEL, PLOT = 26, 260, 420


def bar_chart(title: str, bars: Sequence[tuple[str, float]], unit: str) -> str:
    """Horizontal bars from zero, each with its name and value."""
    top = max((value for _, value in bars), default=0.0) or 1.0
    height = ROW * (len(bars) + 2)
    rows = "\n".join(_row(index, name, value, value / top) for index, (name, value) in enumerate(bars))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + PLOT + 120}" height="{height}" '
        'font-family="sans-serif" font-size="13">\n'
        f'<text x="8" y="18" font-weight="bold">{escape(title)} ({escape(unit)})</text>\n{rows}\n</svg>\n'
    )


def _row(index: int, name: str, value: float, share: float) -> str:
    y = ROW * (index + 1) + 8
    width = max(share * PLOT, 1)
    return (
        f'<text x="{LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{ROW - 8}" fill="#3b6ea5"/>'
        f'<text x="{LABEL + width + 6:.1f}" y="{y + 13}">{value:,.3g}</text>'
    )
