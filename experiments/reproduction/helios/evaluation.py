"""Helios' evaluation as a report: every printed number in a row, ours beside it or the reason why not."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from experiments.pages import commit_text, machine_text
from experiments.reproduction.helios.characteristics import figure_rows, measured_figures
from experiments.reproduction.helios.published import HeliosRow, frame_of, published_rows, set_beside
from experiments.reproduction.helios.replays import replay_loaded_week, replay_philly
from experiments.reproduction.helios.scheduling import (
    absent_rows,
    loaded_week_rows,
    philly_rows,
    twin_rows,
)
from experiments.reproduction.helios.sleeping import sleeping_rows
from experiments.reproduction.helios.summaries import summary_rows
from experiments.reproduction.helios.twin import TWIN_DAYS, replay_twin
from experiments.reproduction.report import Report
from experiments.reproduction.sections import RemarkLetters, Section
from foundation.markdown import number
from foundation.progress import Progress, silent

TITLES = {
    "Table 1": "Table 1: the clusters",
    "Table 2": "Table 2: the traces",
    "section 3": "Section 3: what jobs and users are like",
    "Figure 1a": "Figure 1a: duration of GPU jobs, Helios and Philly",
    "Figure 1b": "Figure 1b: GPU time by final state",
    "Figure 2a": "Figure 2a: utilisation by hour of day",
    "Figure 2b": "Figure 2b: submissions by hour of day",
    "Figure 3": "Figure 3: utilisation by month",
    "Figure 4": "Figure 4: the ten largest virtual clusters of Earth",
    "Figure 5a": "Figure 5a: duration of GPU jobs",
    "Figure 5b": "Figure 5b: duration of CPU jobs",
    "Figure 6a": "Figure 6a: size of jobs, by number of jobs",
    "Figure 6b": "Figure 6b: size of jobs, by GPU time",
    "Figure 7a": "Figure 7a: final states",
    "Figure 7b": "Figure 7b: final states by size",
    "Figure 8a": "Figure 8a: GPU time of the top users",
    "Figure 8b": "Figure 8b: CPU time of the top users",
    "Figure 9a": "Figure 9a: queuing of the top users",
    "Figure 9b": "Figure 9b: users by their share of completed jobs",
    "Table 3": "Table 3: schedulers",
    "Table 4": "Table 4: queuing under FIFO / under QSSF",
    "Figure 11": "Figure 11: distribution of JCT",
    "Figure 12": "Figure 12: queuing by virtual cluster, Saturn",
    "Figure 13": "Figure 13: queuing by virtual cluster, Philly",
    "Table 5": "Table 5: nodes asleep",
    "4.3.3": "Section 4.3.3: what sleeping nodes save",
    "Figure 14": "Figure 14: nodes awake, Earth",
    "Figure 15": "Figure 15: nodes awake, Philly",
}
_OPENING = (
    "The numbers of *Helios* (SC '21) beside what public data gives: {rows:,} rows, {both} with a published "
    "number and one of ours."
)
_DATA = (
    "Philly's jobs (as re-published with the Sia artifact); Venus' submissions; GPUs and nodes in use of "
    "Earth and Philly; the artifact's summaries; a synthetic log"
)
_REMARKS = (
    (
        "SenseTime's job logs are larger than what is kept here: of four of the five clusters schedulers "
        "cannot be compared, and no number was made up for them."
    ),
    (
        "The copy of Philly is light on the nodes that the artifact gives it: hardly any job waits, and "
        "ratios are small. The same jobs on one virtual cluster of 48 nodes show what QSSF does under load."
    ),
    (
        "Philly names neither users nor jobs, so that QSSF's own estimates cannot be made on it: as in the "
        "paper they are the true run times with errors drawn. What both rules of its estimate do to a queue "
        "is shown on a synthetic log; how good they are: `lucid evaluate duration` (rows helios_mix and "
        "helios_mix_shipped)."
    ),
)


def evaluate_helios(
    data: Path, *, seed: int = 0, twin_days: int = TWIN_DAYS, progress: Progress = silent
) -> list[HeliosRow]:
    """Return every row; `data` is the public reference data. `seed` draws Philly's estimates and the
    synthetic log, which is `twin_days` long.

    Raises BadInputError where the data lacks what was published.
    """
    published = published_rows(data)
    philly = replay_philly(data, seed, progress)
    scheduled, bounded = philly_rows(philly)
    slept, equal = sleeping_rows(data, published)
    measured = scheduled | slept | summary_rows(data, philly.by_scheme["FIFO"])
    measured |= measured_figures(data, progress)
    return [
        *set_beside([*published, *figure_rows(data)], measured),
        *bounded,
        *loaded_week_rows(replay_loaded_week(data, seed, progress)),
        *twin_rows(replay_twin(twin_days, seed, progress)),
        *absent_rows(),
        *equal,
    ]


def report_of(rows: Sequence[HeliosRow], command: str) -> Report:
    """Return the rows as a report, a section a table or figure."""
    both = sum(row.published is not None and row.ours is not None for row in rows)
    return Report(
        "Helios' evaluation, reproduced",
        {
            "data": _DATA,
            "commit": commit_text(),
            "machine": machine_text(),
            "command": f"`{command}`",
        },
        [_OPENING.format(rows=len(rows), both=both)],
        _REMARKS,
        tuple(_section(table, [row for row in rows if row.table == table]) for table in _tables(rows)),
    )


def _tables(rows: Iterable[HeliosRow]) -> list[str]:
    present = {row.table for row in rows}
    return [table for table in TITLES if table in present] + sorted(present - set(TITLES))


def _section(table: str, rows: Sequence[HeliosRow]) -> Section:
    """Return a section; remarks stand below it by letter, rows without a number of ours by reason."""
    schemes = any(row.scheme for row in rows)
    letters = RemarkLetters()
    unmeasured: dict[str, int] = {}
    told = []
    for row in rows:
        if row.ours is None:
            unmeasured[row.remark] = unmeasured.get(row.remark, 0) + 1
            continue
        told.append(
            {
                **({"scheme": row.scheme} if schemes else {}),
                "metric": row.metric,
                "published": _told(row.published),
                "ours": _told(row.ours),
                "remark": letters.of(row.remark),
            }
        )
    notes = letters.notes()
    notes += [
        f"Not measured, {count:,} row{'s' if count > 1 else ''}: {reason}."
        for reason, count in unmeasured.items()
    ]
    key = table.lower().replace(" ", "_").replace(".", "_")
    return Section(key, TITLES.get(table, table), frame_of(rows), pd.DataFrame(told), tuple(notes))


def _told(value: float | None) -> str:
    """Return a number for people, a whole one without decimals."""
    return f"{value:,.0f}" if value is not None and value == round(value) else number(value)
