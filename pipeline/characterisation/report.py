"""A characterised log as one value: what its JSON and its page say."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from cluster_logs.characterisation.catalogue import FIGURES, TABLES
from cluster_logs.characterisation.characterise import Characterisation, characterise
from cluster_logs.characterisation.observed_log import ObservedLog
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from pipeline.characterisation.summary import Sentence, summarise
from simulator.wait_fidelity.grade import WaitGrade

TITLES = {item.key: item.title for item in (*FIGURES, *TABLES)}


@dataclass(frozen=True)
class ClusterReport:
    """What was looked at, what was measured, the ten sentences; and of a replay of it, its grade."""

    cluster: str
    start: datetime
    end: datetime
    days: float
    time_zone: str
    rule: str
    measured: Characterisation
    summary: tuple[Sentence, ...]
    notes: tuple[str, ...]
    grade: WaitGrade | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON takes it; `figures` and `tables` hold their rows."""
        measured = self.measured
        return {
            "cluster": self.cluster,
            "window": {
                "start": self.start.isoformat(),
                "end": self.end.isoformat(),
                "days": self.days,
                "time_zone": self.time_zone,
            },
            "utilisation_rule": self.rule,
            "summary": to_jsonable(self.summary),
            "figures": {key: _rows(key, frame) for key, frame in measured.figures.items()},
            "tables": {key: _rows(key, frame) for key, frame in measured.tables.items()},
            "numbers": to_jsonable(measured.numbers),
            "implications": to_jsonable(measured.implications),
            "dropped": to_jsonable(measured.dropped),
            "notes": list(self.notes),
            "grade": None if self.grade is None else to_jsonable(self.grade.to_data()),
        }


def report_on(log: ObservedLog, progress: Progress = silent, grade: WaitGrade | None = None) -> ClusterReport:
    """Measure a log and put it into words; `grade`: of a replay of it."""
    measured = characterise(log, progress)
    window = log.window
    zone = window.zone
    return ClusterReport(
        log.cluster,
        datetime.fromtimestamp(window.start_s, UTC).astimezone(zone),
        datetime.fromtimestamp(window.end_s, UTC).astimezone(zone),
        window.days,
        zone.key,
        str(log.rule),
        measured,
        tuple(summarise(measured.numbers)),
        log.notes,
        grade,
    )


def _rows(key: str, frame: pd.DataFrame) -> dict[str, Any]:
    return {"title": TITLES[key], "rows": to_jsonable(frame.reset_index().to_dict("records"))}
