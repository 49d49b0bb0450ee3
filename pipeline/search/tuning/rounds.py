"""Rounds of trials: asked for by the optimiser, evaluated by anybody, told by their records.

A trial is known by its identity, so a study that was interrupted goes on where it stopped, one that is
enlarged by rounds computes what is new, and workers on any machines may fill the same folder. Failed trials
are tried again when the study is run again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from foundation.errors import BadInputError, LucidError
from foundation.progress import Progress, silent
from pipeline.search.sweeps.runs import OK
from pipeline.search.tuning.files import read_json, write_json
from pipeline.search.tuning.search import next_trials
from pipeline.search.tuning.space import Value
from pipeline.search.tuning.study import Study, load_study
from pipeline.search.tuning.trials import Replayer

SHORTEST_S = 1.0  # an objective below a second counts as one: per cent of nothing mean nothing
SCORE_DIGITS = 6  # of per cent; what differs by less is the same

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """One trial as the tables show it; trial 0 holds the current settings.

    `change_pct` is the mean over the search blocks of the objective's change against trial 0, so that a busy
    block counts no more than a calm one. None: the trial failed, or was not run yet.
    """

    number: int
    round_number: int
    identity: str
    values: Mapping[str, Value]
    record: Record | None
    change_pct: float | None

    def mean_figure(self, name: str) -> float | None:
        """A figure's mean over the search blocks."""
        if self.change_pct is None or self.record is None:
            return None
        found = [float(block[name]) for block in self.record["blocks"].values()]
        return sum(found) / len(found)


def ask_round(study: Study, number: int) -> list[str]:
    """Choose the trials of a round, once, and return the identities of those without a good record.

    Round 0 asks for the current settings and for every other value of each alone; a later round goes by what
    the rounds before it found. Raises BadInputError when a round before it was not asked for or evaluated.
    """
    asked = _rounds(study)
    if number > len(asked):
        raise BadInputError(
            f"Round {number} of {study.uri} cannot be asked for: there are {len(asked)} before it.",
            remedy="Ask for the rounds in order.",
        )
    if number == len(asked):
        asked.append(_choose(study, number))
        write_json(f"{study.uri}/rounds/{number}.json", {"trials": asked[number]})
    identities = [study.identity(values) for values in asked[number]]
    return [found for found in identities if (read_record(study, found) or {}).get("status") != OK]


def _choose(study: Study, number: int) -> list[dict[str, Value]]:
    if number == 0:
        return study.space.one_at_a_time()
    earlier = trials_of(study)
    missing = [trial for trial in earlier if trial.record is None]
    if missing:
        raise BadInputError(
            f"Round {number} of {study.uri} cannot be asked for: {len(missing)} trials of earlier rounds "
            "have no result.",
            remedy="Evaluate them first.",
        )
    if earlier[0].change_pct is None:
        raise LucidError(
            f"The current settings cannot be replayed: {(earlier[0].record or {}).get('error')}",
            remedy="Nothing can be compared with them: fix that first.",
        )
    return next_trials(
        study.space,
        [(trial.values, trial.change_pct) for trial in earlier],
        seed=study.seed,
        round_number=number,
        size=study.round_size,
    )


def evaluate_trials(study_uri: str, identities: Sequence[str], progress: Progress = silent) -> dict[str, int]:
    """Run these trials, one after another, and store each record; one with a good record is not run again.

    A trial that fails is a record, not an error. Returns how many were run, and how many of them failed.
    """
    study = load_study(study_uri)
    wanted = {trial.identity: trial for trial in trials_of(study)}
    done = {"trials": 0, "failed": 0}
    for position, identity in enumerate(identities):
        if identity not in wanted:
            raise BadInputError(
                f"The study at {study_uri} has no trial {identity!r}.", remedy="Ask for a round first."
            )
        trial = wanted[identity]
        progress(position, len(identities), f"trial {trial.number}")
        if trial.record is not None and trial.record["status"] == OK:
            continue
        record = replayer_of(study_uri).run(identity, trial.values)
        write_json(_record_uri(study, identity), record)
        done["trials"] += 1
        done["failed"] += record["status"] != OK
    return done


@lru_cache(maxsize=1)
def replayer_of(study_uri: str) -> Replayer:
    """The replayer of a stored study; the last one is kept for this process's next trial."""
    study = load_study(study_uri)
    return Replayer(
        inputs_uri=study.inputs_uri,
        cluster=study.cluster,
        windows=study.windows,
        settings=study.settings,
        packing=study.packing,
        job_types=study.job_types,
        seed=study.seed,
    )


def trials_of(study: Study) -> list[Trial]:
    """The trials of all rounds, numbered in the order in which they were asked for."""
    asked = [(number, values) for number, found in enumerate(_rounds(study)) for values in found]
    records = [read_record(study, study.identity(values)) for _, values in asked]
    current = records[0] if records else None
    return [
        Trial(i, number, study.identity(values), values, record, _change_pct(study, record, current))
        for i, ((number, values), record) in enumerate(zip(asked, records, strict=True))
    ]


def _rounds(study: Study) -> list[list[dict[str, Value]]]:
    found: list[list[dict[str, Value]]] = []
    while (stored := read_json(f"{study.uri}/rounds/{len(found)}.json")) is not None:
        found.append(stored["trials"])
    return found


def _change_pct(study: Study, record: Record | None, current: Record | None) -> float | None:
    if record is None or current is None or record["status"] != OK or current["status"] != OK:
        return None
    changes = []
    for block, figures in record["blocks"].items():
        before = max(float(current["blocks"][block][study.objective]), SHORTEST_S)
        changes.append(100.0 * (max(float(figures[study.objective]), SHORTEST_S) / before - 1.0))
    return sum(changes) / len(changes)


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """The trial with the lowest score; of equal ones, the one with the fewest changes, then the earliest.

    None when trial 0 has no figures.
    """
    if not trials or trials[0].change_pct is None:
        return None
    current = trials[0].values

    def rank(trial: Trial) -> tuple[float, int, int]:
        changes = sum(value != current[name] for name, value in trial.values.items())
        return (round(trial.change_pct or 0.0, SCORE_DIGITS), changes, trial.number)

    return min((trial for trial in trials if trial.change_pct is not None), key=rank)


def read_record(study: Study, identity: str) -> Record | None:
    """A trial's record; None when it was not run yet."""
    return read_json(_record_uri(study, identity))


def _record_uri(study: Study, identity: str) -> str:
    return f"{study.uri}/trials/{identity}.json"
