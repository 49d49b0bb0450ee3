"""The page of a characterisation: one self-contained HTML file, light or dark as its reader's screen is."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from cluster_logs.characterisation.implications import JudgedRule
from foundation.html_pages import render_page
from foundation.themed_pictures import DARK, LIGHT
from pipeline.characterisation.cells import cell, heading
from pipeline.characterisation.report import TITLES, ClusterReport
from simulator.wait_fidelity.tables import grade_parts

_PACKAGE = "pipeline.characterisation"
_SHOWN_ROWS = 24
_FOLDED = 8  # tables with more rows are folded
REPORT_FILE = "report.json"


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
