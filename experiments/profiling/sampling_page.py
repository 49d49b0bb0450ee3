"""Generated parts of docs/profiling.md: what an order of pairs is worth, how many runs a campaign takes."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.pages import commit_text, machine_text
from experiments.profiling.sampling_study import EVERYTHING, RANDOM, Row, compare_labels, compare_orders
from foundation.markdown import markdown_frame, number
from foundation.progress import Progress, clock_time, silent
from profiler_jobs.commands import USUAL_OVERHEAD_S
from profiler_jobs.method import Method
from profiler_jobs.plan import Plan, PlannedTask, expected_pair_s
from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles
from profiler_jobs.tasks import MeasurementTask, solo_tasks
from profiler_jobs.workloads import list_job_types

COMMAND = "lucid evaluate sampling --singles FILE --pairs FILE --write docs/profiling.md"
PICTURE = "images/sampling_of_pairs.png"
RUN_BUDGET_S = 560.0  # of a ten-minute limit
PAIRS_WORTH = 80
WINDOWS_S = (30.0, 25.0, 10.0)
_SHOWN_SIZES = (20, 40, 80, 160, 240, None)
_PROTOCOLS = {"new_models": "pairs of models that were held out", "new_pairs": "pairs that were held out"}
_COLOURS = {
    RANDOM: "#888888",
    "space_filling": "#2f6f9f",
    "uncertainty": "#c05a2e",
    "uncertainty_diverse": "#7a9a3a",
}


def sampling_tables(
    singles: Path, pairs: Path, page: Path | None, progress: Progress = silent
) -> tuple[list[Row], dict[str, str]]:
    """Replay the orders on measured pairs; returns the rows and the page's tables by marker.

    With a page, the learning curves are drawn beside it.
    """
    solo, together = read_solo_profiles(singles), read_pair_profiles(pairs)
    rows = compare_orders(solo, together, progress=progress)
    labels = labels_table(compare_labels(solo, together))
    if page is not None:
        draw_curves(rows, page.parent / PICTURE)
    digests = ", ".join(
        f"`{path.name}` (SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()[:12]})"
        for path in (singles, pairs)
    )
    origin = (
        f"{len(together):,} pairs of {len(solo)} configurations, {digests}; {commit_text()}; "
        f"{machine_text()}; `{COMMAND}`."
    )
    return rows, {"sampling": f"{_curves_table(rows)}\n\n{origin}", "labels": labels, "runs": runs_table()}


def runs_table() -> str:
    """Return how long Table 1 takes, alone and in pairs, and in how many runs of ten minutes."""
    job_types = list_job_types()
    shown = []
    for window_s in WINDOWS_S:
        method = Method(window_s=window_s)
        pair_s = expected_pair_s(method, overhead_s=USUAL_OVERHEAD_S)
        alone = solo_tasks(job_types)
        together = [MeasurementTask((job_types[0], job_types[0]))] * PAIRS_WORTH
        counts = []
        for tasks in (alone, together):
            plan = Plan(
                tuple(
                    PlannedTask(task, method.expected_s(task, overhead_s=USUAL_OVERHEAD_S), "")
                    for task in tasks
                )
            )
            counts += [clock_time(plan.expected_s), f"{len(plan.sessions(RUN_BUDGET_S)):,}"]
        shown.append(
            {
                "window, s": f"{window_s:g}",
                "one alone": clock_time(method.expected_s(alone[0], overhead_s=USUAL_OVERHEAD_S)),
                f"{len(alone)} alone": counts[0],
                "runs of ten minutes": counts[1],
                "a pair": clock_time(pair_s),
                f"{PAIRS_WORTH} pairs": counts[2],
                "runs of ten minutes for them": counts[3],
            }
        )
    return markdown_frame(pd.DataFrame(shown))


def labels_table(rows: Sequence[Row]) -> str:
    """Return what the packing tree makes of few pairs."""
    shown = [
        {
            "order": str(row["order"]).replace("_", " "),
            "pairs": "all" if row["pairs"] is None else str(row["pairs"]),
            "labels as from all pairs": number(row["agree"], 3),
            "not completed": number(row["agree_measured"], 3),
            "severe errors": number(row["severe"], 3),
            "precision": number(row["precision"], 3),
            "recall": number(row["recall"], 3),
        }
        for row in rows
    ]
    return markdown_frame(pd.DataFrame(shown))


def draw_curves(rows: Sequence[Row], path: Path) -> None:
    """Draw wrong calls and the error of the predicted speed against the number of measured pairs."""
    figure = Figure(figsize=(7.0, 6.4), layout="constrained")
    shown = [protocol for protocol in _PROTOCOLS if any(each["protocol"] == protocol for each in rows)]
    axes = figure.subplots(2, len(shown), sharex=True, squeeze=False)
    for column, protocol in enumerate(shown):
        for row, (figure_name, label) in enumerate(
            (("wrong", "calls on the wrong side of 0.85"), ("mae", "error of the mean speed"))
        ):
            place = axes[row][column]
            for order, colour in _COLOURS.items():
                curve = [each for each in rows if each["protocol"] == protocol and each["order"] == order]
                sizes = [each["pairs"] for each in curve]
                place.plot(
                    sizes, [each[figure_name] for each in curve], "o-", ms=3, color=colour, label=order
                )
                if order == RANDOM and figure_name == "wrong":
                    low, high = ([each[f"wrong_{end}"] for each in curve] for end in ("low", "high"))
                    place.fill_between(sizes, low, high, color=colour, alpha=0.25)
            whole = [each for each in rows if each["protocol"] == protocol and each["order"] == EVERYTHING]
            if whole:
                place.axhline(whole[0][figure_name], color="black", lw=0.8, ls=":", label="all pairs")
            place.set(ylabel=label, title=_PROTOCOLS[protocol] if row == 0 else "")
            place.grid(alpha=0.3)
    for place in axes[1]:
        place.set(xlabel="measured pairs")
    axes[0][0].legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _curves_table(rows: Sequence[Row]) -> str:
    shown = []
    for protocol, words in _PROTOCOLS.items():
        for order in (*_COLOURS, EVERYTHING):
            for row in rows:
                if (row["protocol"], row["order"]) != (protocol, order) or row["pairs"] not in _SHOWN_SIZES:
                    continue
                low, high = (number(row[f"wrong_{end}"], 3) for end in ("low", "high"))
                shown.append(
                    {
                        "judged on": words,
                        "order": order.replace("_", " "),
                        "pairs": "all" if row["pairs"] is None else str(row["pairs"]),
                        "wrong calls": number(row["wrong"], 3)
                        + (f" ({low} to {high})" if order == RANDOM else ""),
                        "error of mean speed": number(row["mae"], 4),
                        "precision": number(row["precision"], 3),
                        "recall": number(row["recall"], 3),
                    }
                )
    return markdown_frame(pd.DataFrame(shown))
