"""The grade of a replay as tables for people: waits by virtual cluster, and what explains the difference."""

from collections.abc import Mapping
from typing import Any

from foundation.human_times import human_duration
from foundation.markdown import markdown_table, markdown_text

FIGURES = {"mean": "mean", "p50": "P50", "p90": "P90", "p999": "P99.9", "sum": "sum"}


def waits_table(grade: Mapping[str, Any]) -> str:
    """Waits of the log and of the replay in Markdown, all jobs first; of `WaitGrade.to_data`."""
    heading = ["virtual cluster", "jobs", *(f"{title}: log, replay" for title in FIGURES.values())]
    rows = [
        [
            markdown_text(str(group["group"])),
            f"{group['jobs']:,}",
            *(
                f"{human_duration(group['logged'][name])}, {human_duration(group['replayed'][name])}"
                for name in FIGURES
            ),
            f"{group['within_x2_pct']:.0f}",
        ]
        for group in grade["waits"]
    ]
    return markdown_table([*heading, "within a factor of 2 (%)"], rows, align_numbers=False)


def grade_page(grade: Mapping[str, Any]) -> str:
    """All of a grade in Markdown, its rule once."""
    parts = [markdown_text(grade["sentence"])]
    if grade["waits"]:
        parts.append(waits_table(grade))
    if grade["explains"]:
        causes = "\n".join(f"- {markdown_text(cause['sentence'])}" for cause in grade["explains"])
        parts.append(f"What explains the difference (shares overlap):\n\n{causes}")
    if grade["jobs_without_start"]:
        parts.append(f"{grade['jobs_without_start']:,} jobs have no start in the log and are not compared.")
    if grade["not_modelled"]:
        left_out = "\n".join(f"- {markdown_text(each)}" for each in grade["not_modelled"])
        parts.append(f"What the site declares and the replay leaves out:\n\n{left_out}")
    return "\n\n".join([*parts, grade["rule"]])
