"""The page of a characterisation: one self-contained HTML file, light or dark as its reader's screen is."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from foundation.html_pages import render_page
from foundation.themed_pictures import DARK, LIGHT
from parts.characterisation.implications import JudgedRule
from parts.characterisation.report import TITLES, ClusterReport, duration_text
from simulator.wait_fidelity.tables import grade_parts

_PACKAGE = "parts.characterisation"
_SHOWN_ROWS = 24
_FOLDED = 8  # tables with more rows are folded
_WORDS = {"gpus": "GPUs", "gpu": "GPU", "cpu": "CPU", "jct": "JCT", "pct": "%"}


def characterisation_page(report: ClusterReport, pictures: Mapping[str, Markup]) -> str:
    """Return the page; `pictures` by figure, as `pictures.draw` makes them."""
    measured = report.measured
    return render_page(
        _PACKAGE,
        "characterisation.html",
        title=f"Cluster {report.cluster}",
        report=report,
        light=LIGHT,
        dark=DARK,
        about=_about(report),
        implications=[
            {
                "number": each.number,
                "statement": each.statement,
                "verdict": _verdict(each.holds),
                "evidence": [(e.rule, _number(e), _verdict(e.holds)) for e in each.evidence],
            }
            for each in measured.implications
        ],
        figures=[(key, TITLES[key], pictures[key]) for key in measured.figures if pictures.get(key)],
        tables=[_table(key, frame) for key, frame in measured.tables.items()],
        dropped=_by_reason(report),
        grade=None if report.grade is None else grade_parts(report.grade.to_data()),
    )


def index_page(clusters: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the page that lists each cluster's characterisations (href, start, end, gpu_jobs), newest
    first.
    """
    return render_page(_PACKAGE, "clusters.html", title="Clusters", clusters=clusters, light=LIGHT, dark=DARK)


def _about(report: ClusterReport) -> dict[str, str]:
    measured = report.measured
    facts = {
        "window": f"{report.start:%Y-%m-%d %H:%M} to {report.end:%Y-%m-%d %H:%M} ({report.days:g} days)",
        "clock": report.time_zone,
        "a job holds its GPUs at the minutes": "start ≤ m < end"
        if report.rule == "half-open"
        else "floor(start) ≤ m ≤ floor(end), as Helios published",
    }
    if "table1" in measured.tables:
        row = measured.tables["table1"].iloc[0]
        facts |= {heading(str(name)): cell(str(name), value) for name, value in row.items()}
    return facts | {f"note {number + 1}": note for number, note in enumerate(report.notes)}


def _verdict(holds: bool | None) -> str:
    return "–" if holds is None else "true" if holds else "false"


def _number(evidence: JudgedRule) -> str:
    return "–" if evidence.value is None else f"{evidence.value:,.4g}"


def _table(key: str, frame: pd.DataFrame) -> dict[str, Any]:
    flat = frame.reset_index()
    names = [str(name) for name in flat.columns]
    rows = [
        [cell(name, value) for name, value in zip(names, row, strict=True)]
        for row in flat.head(_SHOWN_ROWS).itertuples(index=False)
    ]
    return {
        "key": key,
        "title": TITLES[key],
        "head": [heading(name) for name in names],
        "rows": rows,
        "count": len(flat),
        "folded": len(flat) > _FOLDED,
    }


def _by_reason(report: ClusterReport) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for each in report.measured.dropped:
        reasons.setdefault(each.reason, []).append(each.item)
    return reasons


def heading(column: str) -> str:
    """A column's name in words, with its unit."""
    if column.endswith("gpu_time_s"):
        return f"{_in_words(column.removesuffix('_s'))}, GPU h"
    for ending, unit in (("_pct", ", %"), ("_h", ", h"), ("_s", "")):
        if column.endswith(ending):
            return _in_words(column.removesuffix(ending)) + unit
    return _in_words(column)


def cell(column: str, value: Any) -> str:
    """A value of a column as text; a dash where there is none."""
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value) or not math.isfinite(value):
        return "–"
    if column.endswith("gpu_time_s"):
        return f"{value / 3_600:,.1f}"
    if column.endswith("_s"):
        return duration_text(float(value))
    if column in ("hour", "gpus") or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.2f}" if column.startswith(("mean_gpus", "gini")) else f"{value:,.1f}"


def _in_words(name: str) -> str:
    return " ".join(_WORDS.get(word, word) for word in name.split("_"))
