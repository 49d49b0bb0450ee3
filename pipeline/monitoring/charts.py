"""Small pictures for the monitoring page: SVG and bars of HTML, with their numbers as text beside them."""

from collections.abc import Sequence
from html import escape

from lucid_models.drift import Bin

WIDTH, HEIGHT = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 12, 34
COLOURS = ("#2563a8", "#c2681f", "#777777")


def columns(labels: Sequence[str], values: Sequence[float], title: str) -> str:
    """A column a label, with the value above it."""
    if not values:
        return ""
    top = max(*values, 1e-12)
    step = (WIDTH - _LEFT - _RIGHT) / len(values)
    parts = []
    for place, (label, value) in enumerate(zip(labels, values, strict=True)):
        x, height = _LEFT + place * step, _span() * value / top
        y = HEIGHT - _BOTTOM - height
        parts.append(
            f'<rect x="{x + 0.15 * step:.1f}" y="{y:.1f}" width="{0.7 * step:.1f}" height="{height:.1f}" '
            f'fill="{COLOURS[0]}"/>'
            f'<text x="{x + step / 2:.1f}" y="{y - 3:.1f}" text-anchor="middle">{value:,.0f}</text>'
            f'<text x="{x + step / 2:.1f}" y="{HEIGHT - 16}" text-anchor="middle">{escape(label)}</text>'
        )
    return _svg("".join(parts), title)


def lines(
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    title: str,
    level: tuple[str, float] | None = None,
) -> str:
    """Lines over the same labels from zero on, and a dashed `level`; the legend stands above."""
    if len(labels) < 2:
        return ""
    numbers = [value for _, values in series for value in values] + ([level[1]] if level else [])
    top = 1.1 * max(*numbers, 1e-12)
    step = (WIDTH - _LEFT - _RIGHT) / (len(labels) - 1)

    def y_of(value: float) -> float:
        return HEIGHT - _BOTTOM - _span() * value / top

    parts = [
        f'<text x="{_LEFT - 4}" y="{y_of(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y_of(value):.1f}" y2="{y_of(value):.1f}" '
        'stroke="#e3e3e3"/>'
        for value in (0.0, top / 2.2, top / 1.1)
    ]
    every = max(1, -(-len(labels) // 8))
    parts += [
        f'<text x="{_LEFT + place * step:.1f}" y="{HEIGHT - 16}" text-anchor="{_anchor(place, len(labels))}">'
        f"{escape(label)}</text>"
        for place, label in enumerate(labels)
        if place % every == 0
    ]
    for (_, values), colour in zip(series, COLOURS, strict=False):
        points = " ".join(f"{_LEFT + place * step:.1f},{y_of(v):.1f}" for place, v in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    names = [(name, colour) for (name, _), colour in zip(series, COLOURS, strict=False)]
    if level is not None:
        y = y_of(level[1])
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{COLOURS[2]}" '
            'stroke-dasharray="5 4"/>'
        )
        names.append((level[0], COLOURS[2]))
    legend = "".join(f'<span style="color:{colour}">&#9644; {escape(name)}</span> ' for name, colour in names)
    return f'<p class="legend">{legend}</p>{_svg("".join(parts), title)}'


def shares(bins: Sequence[Bin]) -> str:
    """Reference and live share of each bin as bars below each other."""
    rows = "".join(
        f"<tr><td>{escape(each.label)}</td><td>{_bar(each.reference, COLOURS[2])}</td>"
        f"<td>{each.reference:.1%}</td><td>{_bar(each.live, COLOURS[0])}</td><td>{each.live:.1%}</td></tr>"
        for each in bins
    )
    return (
        '<table class="shares"><tr><th>values</th><th colspan="2">training</th><th colspan="2">now</th></tr>'
        f"{rows}</table>"
    )


def _bar(share: float, colour: str) -> str:
    return f'<div class="bar" style="width:{160 * min(share, 1.0):.1f}px;background:{colour}"></div>'


def _svg(inside: str, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{inside}</svg>"
    )


def _span() -> float:
    return HEIGHT - _TOP - _BOTTOM


def _anchor(place: int, count: int) -> str:
    return "start" if place == 0 else ("end" if place == count - 1 else "middle")
