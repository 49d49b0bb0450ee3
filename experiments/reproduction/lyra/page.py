"""Lyra's evaluation as a report: claims first, then the paper's tables and figures, a section each."""

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.figure import Figure

from experiments.pages import commit_text, machine_text
from experiments.reproduction.lyra import drawing
from experiments.reproduction.lyra.evaluation import BUSY_TABLE, LyraEvaluation
from experiments.reproduction.lyra.prose import DATA, HOW, HOW_ONE, OPENING, REMARKS, SCHEMES
from experiments.reproduction.lyra.published import LyraRow, frame_of
from experiments.reproduction.lyra.tables import LOANED_JOBS_TABLE, PLACEMENT_TABLE
from experiments.reproduction.lyra.windows import LyraWindow
from experiments.reproduction.report import Report
from experiments.reproduction.sections import RemarkLetters, Section
from foundation.markdown import NO_VALUE, number

# Tables whose rows are schemes and whose columns are metrics.
_WIDE = {
    "Table 5": "Table 5: schemes in different scenarios",
    PLACEMENT_TABLE: "Table 6: without special placement of elastic jobs",
    LOANED_JOBS_TABLE: "Table 7: jobs that ran on on-loan servers",
    "Table 8": "Table 8: percentiles of queuing and JCT, scaling only",
    "Table 9": "Table 9: wrong estimates of run time",
    "Fig 8": "Figure 8: imperfect scaling",
    "Fig 9": "Figure 9: usage of on-loan servers",
    "Fig 10": "Figure 10: rules of reclaiming",
    "Fig 11": "Figure 11: more heterogeneous jobs",
    "Fig 12": "Figure 12: resampled traces",
    "Fig 13": "Figure 13: more jobs with checkpoints",
    "Fig 14 and 15": "Figures 14 and 15: more elastic jobs",
    "Fig 16": "Figure 16: imperfect scaling of more elastic jobs",
    "headroom": "Headroom, which the paper does not vary",
    BUSY_TABLE: "A busier cluster, which the paper does not have",
}
_NUMBERS = "Numbers of the text, and Figures 1 and 2"
_TESTBED = "Table 10: the testbed"
_Draw = Callable[[LyraEvaluation], Figure]
_PICTURES: dict[str, _Draw] = {
    "Table 5": lambda done: drawing.hourly_usage(done.of(done.plan.windows)[0]),
    "Fig 8": lambda done: drawing.imperfect_scaling(done.of(done.plan.windows)),
    "Fig 9": lambda done: drawing.on_loan_usage(done.of(done.plan.windows)[0]),
    "Fig 10": lambda done: drawing.reclaiming(done.of(done.plan.windows)),
    "Fig 11": lambda done: drawing.heterogeneous(done.of(done.plan.windows)),
    "Fig 12": lambda done: drawing.resamples(done.of(done.plan.resamples)),
    "Fig 13": lambda done: drawing.checkpoints(done.of(done.plan.windows)),
    "Fig 14 and 15": lambda done: drawing.elastic_shares(done.of(done.plan.windows)),
    "Fig 16": lambda done: drawing.imperfect_shares(done.of(done.plan.windows)),
}


def report_of(done: LyraEvaluation, command: str) -> Report:
    """Return the evaluation as a report."""
    published = [row for row in done.rows if row.published is not None]
    both = sum(row.ours is not None for row in published)
    names = ", ".join(f"{window.name}: {_size(window)}" for window in done.plan.windows)
    sections = [
        claims_section("claims", "What the paper claims, and whether it holds here", done.claims),
        claims_section("our_settings", "What our settings claim beside the paper's rules", done.our_claims),
    ]
    for table, title in _WIDE.items():
        rows = [row for row in done.rows if row.table == table]
        if rows:
            draw = _PICTURES.get(table) if any(row.ours is not None for row in rows) else None
            sections.append(_wide(table, title, rows, None if draw is None else draw(done)))
    testbed = [row for row in done.rows if row.table.startswith("Table 10")]
    numbers = [row for row in done.rows if row.table not in _WIDE and row not in testbed]
    sections += [_list("table_10", _TESTBED, testbed), _list("numbers", _NUMBERS, numbers)]
    return Report(
        "Lyra's evaluation, reproduced",
        {"data": DATA, "commit": commit_text(), "machine": machine_text(), "command": f"`{command}`"},
        [
            OPENING.format(rows=len(done.rows), published=len(published), both=both),
            (HOW if len(done.plan.windows) > 1 else HOW_ONE).format(
                windows=len(done.plan.windows), names=names
            ),
            SCHEMES,
        ],
        REMARKS,
        tuple(sections),
    )


def claims_section(key: str, title: str, claims: pd.DataFrame) -> Section:
    """Return a table of claims for people: the paper's number, ours with its range, and the verdict."""
    shown = pd.DataFrame(
        [
            {
                "claim": claim["claim"],
                "where": claim["where"],
                "paper": _valued(claim["published"], claim["unit"]),
                "here": _valued(claim["ours"], claim["unit"]),
                "range": _range(claim["low"], claim["high"]),
                "holds": claim["verdict"],
                "on windows": f"{claim['holds_on']} of {claim['windows']}",
            }
            for claim in claims.to_dict("records")
        ]
    )
    note = (
        "x: how many times the first is the second. It holds where the mean over windows lies on the paper's "
        "side of no effect, or of the bound that the claim names."
    )
    return Section(key, title, claims, shown, (note,))


def _size(window: LyraWindow) -> str:
    return f"{window.training_servers} + {window.inference_servers} servers"


def _valued(value: float | None, unit: str) -> str:
    return NO_VALUE if value is None or value != value else f"{number(value)} {unit}".rstrip()


def _range(low: float | None, high: float | None) -> str:
    return NO_VALUE if low is None or low != low else f"{number(low)} to {number(high)}"


def _wide(table: str, title: str, rows: Sequence[LyraRow], drawn: Figure | None) -> Section:
    """Return a table with a row a scheme and a column a metric: ours, and the paper's in brackets."""
    letters = RemarkLetters()
    metrics = list(dict.fromkeys(row.metric for row in rows))
    told: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        line = told.setdefault(
            (row.scenario, row.scheme),
            {"scenario": row.scenario, "scheme": row.scheme} | dict.fromkeys(metrics, ""),
        )
        ours = NO_VALUE if row.ours is None else number(row.ours)
        line[row.metric] = ours + ("" if row.published is None else f" ({_told(row.published)})")
        letter = letters.of(row.remark)
        marks = line.setdefault("remark", "")
        if letter not in marks.split():
            line["remark"] = f"{marks} {letter}".strip()
    shown = pd.DataFrame(list(told.values()))
    key = table.split(" (")[0].lower().replace(" ", "_")
    notes = ("Ours (the paper's in brackets).", *letters.notes())
    return Section(key, title, frame_of(rows), shown, notes, drawn)


def _list(key: str, title: str, rows: Sequence[LyraRow]) -> Section:
    """Return a table with a row a number; those without one of ours stand below, by reason."""
    letters = RemarkLetters()
    unmeasured: dict[str, int] = {}
    told = []
    for row in rows:
        if row.ours is None:
            unmeasured[row.remark] = unmeasured.get(row.remark, 0) + 1
            continue
        told.append(
            {
                "where": row.table,
                "about": " ".join(part for part in (row.scenario, row.scheme) if part),
                "metric": row.metric,
                "published": _told(row.published),
                "ours": number(row.ours),
                "remark": letters.of(row.remark),
            }
        )
    notes = [*letters.notes()]
    notes += [f"Not measured, {count} numbers: {why}." for why, count in unmeasured.items()]
    return Section(key, title, frame_of(rows), pd.DataFrame(told), tuple(notes))


def _told(value: float | None) -> str:
    """Return a printed number, a whole one without decimals."""
    return f"{value:,.0f}" if value is not None and value == round(value) else number(value)
