"""All that a log says of its cluster: `characterise(log)`."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import pandas as pd

from cluster_logs.log_statistics.observed_log import ObservedLog
from foundation.progress import Progress, silent
from parts.characterisation import catalogue
from parts.characterisation.implications import Implication, judge_implications


@dataclass(frozen=True)
class Dropped:
    """Something that a log cannot carry, and what it lacks."""

    item: str
    reason: str


@dataclass(frozen=True)
class Characterisation:
    """Figures and tables by key (frames with their index), `numbers` by `GROUP.NAME`, the implications, and
    what was dropped.
    """

    figures: dict[str, pd.DataFrame]
    tables: dict[str, pd.DataFrame]
    numbers: dict[str, float]
    implications: tuple[Implication, ...]
    dropped: tuple[Dropped, ...]


def characterise(log: ObservedLog, progress: Progress = silent) -> Characterisation:
    """Measure everything that the log can carry; the rest is dropped by name, with a reason."""
    dropped: list[Dropped] = []
    steps = len(catalogue.FIGURES) + len(catalogue.TABLES) + len(catalogue.NUMBERS)
    progress(0, steps, "figures")
    figures = _measured(log, catalogue.FIGURES, dropped)
    progress(len(catalogue.FIGURES), steps, "tables")
    tables = _measured(log, catalogue.TABLES, dropped)
    progress(len(catalogue.FIGURES) + len(catalogue.TABLES), steps, "numbers")
    numbers: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for group in catalogue.NUMBERS:
        reason = catalogue.lacking(log, group.needs)
        measured = {} if reason else {name: x for name, x in group.measure(log).items() if isfinite(x)}
        if not measured:
            reasons[group.key] = reason or "too few rows to say"
        numbers.update({f"{group.key}.{name}": value for name, value in measured.items()})
    dropped += [Dropped(f"numbers: {key}", reason) for key, reason in reasons.items()]
    implications = judge_implications(numbers)
    dropped += [
        Dropped(
            f"implication {each.number}: {evidence.key}",
            reasons.get(_group(evidence.key), "too few rows to say"),
        )
        for each in implications
        for evidence in each.evidence
        if evidence.value is None
    ]
    progress(steps, steps, "numbers")
    return Characterisation(figures, tables, numbers, implications, tuple(dropped))


def _measured(
    log: ObservedLog, items: Iterable[catalogue.Item], dropped: list[Dropped]
) -> dict[str, pd.DataFrame]:
    measured = {}
    for item in items:
        frames = []
        for name, part in catalogue.parts_of(item):
            reason = catalogue.lacking(log, part.needs)
            if reason:
                dropped.append(Dropped(name, reason))
            else:
                frames.append(part.measure(log))
        if frames:
            joined = pd.concat(frames, axis=1) if len(frames) > 1 else frames[0]
            if item.largest_first:
                joined = _largest_first(joined)
            joined.index.name = frames[0].index.name or item.key.removeprefix("by_")
            measured[item.key] = joined
    return measured


def _largest_first(frame: pd.DataFrame) -> pd.DataFrame:
    by = next((name for name in ("gpu_time_s", "gpu_jobs", "gpus") if name in frame), None)
    return frame if by is None else frame.sort_values(by, ascending=False, kind="stable")


def _group(key: str) -> str:
    return key.partition(".")[0]
