"""Lyra's evaluation as rows and claims: every printed number, ours beside it or the reason why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.reproduction.lyra.claims import claims_frame
from experiments.reproduction.lyra.figures import curve_measures, printed_measures, resampled_measures
from experiments.reproduction.lyra.inputs import input_rows
from experiments.reproduction.lyra.outcomes import LyraOutcome
from experiments.reproduction.lyra.plan import EvaluationPlan, full_plan
from experiments.reproduction.lyra.published import LyraRow, RowKey, frame_of, read_published, set_beside
from experiments.reproduction.lyra.reasons import reason
from experiments.reproduction.lyra.remarks import remark_on
from experiments.reproduction.lyra.replays import replay_all
from experiments.reproduction.lyra.rules_alone import rule_rows
from experiments.reproduction.lyra.schemes import BUSY, BUSY_FORTNIGHT, FORTNIGHT
from experiments.reproduction.lyra.spreads import (
    ByScheme,
    Measure,
    Spread,
    answering_all,
    by_window,
    figure,
    jct,
    queuing,
    spread,
)
from experiments.reproduction.lyra.statements import OUR_CLAIMS, PUBLISHED_CLAIMS
from experiments.reproduction.lyra.tables import table_measures
from experiments.reproduction.lyra.windows import LyraWindow
from foundation.progress import Progress, silent

BUSY_TABLE = "busy"


@dataclass(frozen=True)
class LyraEvaluation:
    """All rows, claims with what holds, and the outcomes that pictures are drawn from."""

    plan: EvaluationPlan
    rows: tuple[LyraRow, ...]
    claims: pd.DataFrame
    our_claims: pd.DataFrame
    outcomes: Mapping[LyraWindow, Mapping[str, LyraOutcome]]

    def of(self, windows: Sequence[LyraWindow]) -> list[ByScheme]:
        """Return the outcomes of some windows, by scheme."""
        return [self.outcomes[window] for window in windows]

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as a table, a column a field of `LyraRow`."""
        return frame_of(self.rows)


def evaluate_lyra(
    data: Path,
    folder: Path,
    *,
    plan: EvaluationPlan | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> LyraEvaluation:
    """Replay what the plan asks for (default: the full one), and set it beside the paper.

    `data` is the public reference data; `folder` keeps replays, so that an interrupted evaluation goes on.
    Raises BadInputError where the data lacks what is compared.
    """
    published = read_published(data)
    plan = plan or full_plan()
    outcomes = by_window(replay_all(data, plan.runs, folder, workers=workers, progress=progress))
    windows = [outcomes[window] for window in plan.windows]
    resamples = [outcomes[window] for window in plan.resamples]
    simulated = table_measures() | printed_measures() | curve_measures()
    measured = input_rows(data) | rule_rows(data)
    measured |= _measured(simulated, windows, replayed_fortnight=plan.windows[0].name == FORTNIGHT.name)
    measured |= _measured(resampled_measures(), resamples, replayed_fortnight=False)
    measured |= _busy_rows(outcomes[plan.busy])
    keys = {number.row.key for number in published}
    rows = set_beside(published, measured, {key: reason(key) for key in keys})
    rows += [row for key, row in measured.items() if key not in keys]
    return LyraEvaluation(
        plan,
        tuple(rows),
        claims_frame(PUBLISHED_CLAIMS, windows, resamples),
        claims_frame(OUR_CLAIMS, windows, resamples),
        outcomes,
    )


def _measured(
    measures: Mapping[RowKey, Measure], windows: Sequence[ByScheme], *, replayed_fortnight: bool
) -> dict[RowKey, LyraRow]:
    columns: dict[tuple[str, str], list[Measure]] = {}
    for (table, _, _, metric), measure in measures.items():
        columns.setdefault((table, metric), []).append(measure)
    compared = {column: answering_all(beside, windows) for column, beside in columns.items()}
    rows = {}
    for key, measure in measures.items():
        table, _, _, metric = key
        measured = spread(measure, compared[table, metric])
        if measured is not None:
            first = spread(measure, windows[:1]) if replayed_fortnight else None
            rows[key] = _row(key, measured, None if first is None else first.mean)
    return rows


def _row(key: RowKey, measured: Spread, fortnight: float | None) -> LyraRow:
    several = len(measured.values) > 1
    return LyraRow(
        *key,
        published=None,
        ours=measured.mean,
        low=measured.low if several else None,
        high=measured.high if several else None,
        fortnight=fortnight,
        remark=remark_on(key, len(measured.values)),
    )


def _busy_rows(window: ByScheme) -> dict[RowKey, LyraRow]:
    """A busier cluster, which is not in the paper."""
    servers = f"{BUSY_FORTNIGHT.training_servers} + {BUSY_FORTNIGHT.inference_servers} servers"
    rows = {}
    for scheme in BUSY:
        for metric, measure in (
            ("queue mean s", queuing(scheme.key)),
            ("JCT mean s", jct(scheme.key)),
            ("preemptions", figure(scheme.key, "preemptions")),
        ):
            key = (BUSY_TABLE, servers, scheme.key, metric)
            measured = spread(measure, [window])
            if measured is not None:
                rows[key] = _row(key, measured, None)
    return rows
