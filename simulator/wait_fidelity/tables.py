"""The grade of a replay as tables for people: waits by virtual cluster, and what explains the difference."""

from collections.abc import Mapping
from typing import Any

from foundation.human_times import human_duration
from foundation.markdown import markdown_table, markdown_text

FIGURES = {"mean": "mean", "p50": "P50", "p90": "P90", "p999": "P99.9", "sum": "sum"}
HEAD = (
    "virtual cluster",
    "jobs",
    *(f"{title}: log, replay" for title in FIGURES.values()),
    "within a factor of 2 (%)",
)


def grade_parts(grade: Mapping[str, Any]) -> dict[str, Any]:
    """Return the texts of a grade (`WaitGrade.to_data`): `sentence`, a table of `head` and `rows` (all jobs
    first, maybe none), `remarks` on what explains the difference and what is left out, and its `rule`.
    """
    rows = [
        [
            str(group["group"]),
            f"{group['jobs']:,}",
            *(
                f"{human_duration(group['logged'][name])}, {human_duration(group['replayed'][name])}"
                for name in FIGURES
            ),
            f"{group['within_x2_pct']:.0f}",
        ]
        for group in grade["waits"]
    ]
    remarks = [cause["sentence"] for cause in grade["explains"]]
    if grade["jobs_without_start"]:
        without = f"{grade['jobs_without_start']:,} jobs have no start in the log and are not compared."
        remarks.append(without)
    remarks += [f"Declared, and not replayed: {each}" for each in grade["not_modelled"]]
    return {
        "sentence": grade["sentence"],
        "head": list(HEAD),
        "rows": rows,
        "remarks": remarks,
        "rule": grade["rule"],
    }


def grade_page(grade: Mapping[str, Any]) -> str:
    """All of a grade in Markdown, its rule once."""
    texts = grade_parts(grade)
    parts = [markdown_text(texts["sentence"])]
    if texts["rows"]:
        rows = [[markdown_text(name), *cells] for name, *cells in texts["rows"]]
        parts.append(markdown_table(texts["head"], rows, align_numbers=False))
    if texts["remarks"]:
        parts.append("\n".join(f"- {markdown_text(remark)}" for remark in texts["remarks"]))
    return "\n\n".join([*parts, texts["rule"]])
