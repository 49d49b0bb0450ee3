"""Rounds of trials: asked for by the optimiser, evaluated by any worker, read back from their records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from foundation.errors import LucidError
from foundation.progress import Progress, silent
from pipeline.studies.experiment import OK, Record
from pipeline.studies.optimiser import Parameters, ask, optimiser
from pipeline.studies.tuning.space import SearchSpace, thresholds_rise
from pipeline.studies.tuning.study import TuningStudy, load_study
from pipeline.studies.tuning.trials import TrialReplayer
from pipeline.studies.tuning.tuned_part import Value, Values

_TREES_SEED = 0

Scored = Sequence[tuple[Values, float | None]]


def next_trials(
    space: SearchSpace, scored: Scored, *, seed: int, round_number: int, size: int
) -> list[dict[str, Value]]:
    """Return up to `size` new trials, from `scored` ones (a lower score is better; None: failed).

    Fewer, or none, when the space has nothing new that the optimiser would try.
    """
    tried = {_key(space, values) for values, _ in scored}

    def accept(positions: Parameters) -> dict[str, Value] | None:
        values = {**space.current, **{p.name: p.values[int(positions[p.name])] for p in space.free}}
        key = _key(space, values)
        if key in tried or not thresholds_rise(values):
            return None
        tried.add(key)
        return values

    study = _optimiser(space, scored, seed=seed, round_number=round_number)
    return ask(study, _distributions(space), accept, size=size)


def importances(space: SearchSpace, scored: Scored) -> dict[str, float]:
    """Return the share of the scores' variance that each parameter explains (fANOVA, Hutter et al. 2014).

    Empty when too few trials differ to say.
    """
    import optuna

    scores = {score for _, score in scored if score is not None}
    if len(scores) < 2 or len(space.free) < 1:
        return {}
    study = _optimiser(space, scored, seed=0, round_number=0)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=_TREES_SEED)
    shares: Mapping[str, float] = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {parameter.name: float(shares.get(parameter.name, 0.0)) for parameter in space.free}


def _optimiser(space: SearchSpace, scored: Scored, *, seed: int, round_number: int) -> Any:
    positions = [
        ({p.name: p.position(values[p.name]) for p in space.free}, (score,))
        for values, score in scored
        if score is not None
    ]
    return optimiser(positions, _distributions(space), seed=seed, round_number=round_number)


def _distributions(space: SearchSpace) -> dict[str, Any]:
    import optuna

    return {p.name: optuna.distributions.IntDistribution(0, len(p.values) - 1) for p in space.free}


def _key(space: SearchSpace, values: Values) -> tuple[int, ...]:
    return tuple(p.position(values[p.name]) for p in space.free)


SHORTEST_S = 1.0  # an objective below a second counts as one: per cent of nothing mean nothing
LIMIT_PRICE = 10.0  # per cent of the objective for a point beyond a limit: no gain is worth one
SCORE_DIGITS = 6  # of per cent; what differs by less is the same


@dataclass(frozen=True)
class Trial:
    """One trial as the tables show it; trial 0 holds the current settings.

    `change_pct` is the mean over the search blocks of the objective's change against trial 0, so that a busy
    block counts no more than a calm one. None: the trial failed, or was not run yet. `over_limit_points`: by
    how much figures of the release's parts are above what they may be.
    """

    number: int
    round_number: int
    identity: str
    values: Mapping[str, Value]
    record: Record | None
    change_pct: float | None
    over_limit_points: float = 0.0

    @property
    def score(self) -> float | None:
        """What the optimiser makes small: the change, and a price on what is beyond a limit."""
        return None if self.change_pct is None else self.change_pct + LIMIT_PRICE * self.over_limit_points

    def mean_figure(self, name: str) -> float | None:
        """A figure's mean over the search blocks."""
        if self.change_pct is None or self.record is None:
            return None
        values = [float(block[name]) for block in self.record["blocks"].values()]
        return sum(values) / len(values)


def ask_round(study: TuningStudy, number: int) -> list[str]:
    """Choose the trials of a round, once, and return the identities of those without a good record.

    Round 0 asks for the current settings and for every other value of each alone; a later round goes by what
    the rounds before it found. Raises BadInputError when a round before it was not asked for or evaluated.
    """
    stored = study.stored_round(number, lambda: {"trials": _choose(study, number)})
    identities = [study.identity(values) for values in stored["trials"]]
    return [identity for identity in identities if not study.is_done(identity)]


def _choose(study: TuningStudy, number: int) -> list[dict[str, Value]]:
    if number == 0:
        return study.space.one_at_a_time()
    earlier = trials_of(study)
    study.check_evaluated(number, sum(trial.record is None for trial in earlier))
    if earlier[0].change_pct is None:
        raise LucidError(
            f"The current settings cannot be replayed: {(earlier[0].record or {}).get('error')}",
            remedy="Nothing can be compared with them: fix that first.",
        )
    return next_trials(
        study.space,
        [(trial.values, trial.score) for trial in earlier],
        seed=study.seed,
        round_number=number,
        size=study.round_size,
    )


def evaluate_trials(study_uri: str, identities: Sequence[str], progress: Progress = silent) -> dict[str, int]:
    """Run these trials, one after another, and store each record; one with a good record is not run again.

    A trial that fails is a record, not an error. Returns how many were run, and how many of them failed.
    """
    study = load_study(study_uri)
    records = study.evaluate(
        identities,
        {trial.identity: trial for trial in trials_of(study)},
        lambda identity, trial: replayer_of(study_uri).run(identity, trial.values),
        label=lambda trial: f"trial {trial.number}",
        progress=progress,
    )
    return {"trials": len(records), "failed": sum(record["status"] != OK for record in records)}


@lru_cache(maxsize=1)
def replayer_of(study_uri: str) -> TrialReplayer:
    """The replayer of a stored study; the last one is kept for this process's next trial."""
    study = load_study(study_uri)
    return TrialReplayer(
        inputs_uri=study.inputs_uri,
        cluster=study.cluster,
        windows=study.windows,
        base=study.base,
        job_types=study.job_types,
        seed=study.seed,
    )


def trials_of(study: TuningStudy) -> list[Trial]:
    """The trials of all rounds, numbered in the order in which they were asked for."""
    values_by_round = [
        (number, values) for number, stored in enumerate(study.stored_rounds()) for values in stored["trials"]
    ]
    records = [study.record(study.identity(values)) for _, values in values_by_round]
    current = records[0] if records else None
    return [
        Trial(
            i,
            number,
            study.identity(values),
            values,
            record,
            _change_pct(study, record, current),
            _over_limit_points(study, record),
        )
        for i, ((number, values), record) in enumerate(zip(values_by_round, records, strict=True))
    ]


def _change_pct(study: TuningStudy, record: Record | None, current: Record | None) -> float | None:
    if record is None or current is None or record["status"] != OK or current["status"] != OK:
        return None
    changes = []
    for block, figures in record["blocks"].items():
        before = max(float(current["blocks"][block][study.objective]), SHORTEST_S)
        changes.append(100.0 * (max(float(figures[study.objective]), SHORTEST_S) / before - 1.0))
    return sum(changes) / len(changes)


def _over_limit_points(study: TuningStudy, record: Record | None) -> float:
    """By how much the means over blocks of limited figures are above their limits."""
    if record is None or record["status"] != OK:
        return 0.0
    blocks = record["blocks"].values()
    means = {
        limit: sum(float(figures[limit.figure]) for figures in blocks) / len(blocks) for limit in study.limits
    }
    return sum(max(0.0, mean - limit.limit) for limit, mean in means.items())


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """The trial with the lowest score; of equal ones, the one with the fewest changes, then the earliest.

    One beyond a limit comes after all others. None when trial 0 has
    no figures.
    """
    if not trials or trials[0].change_pct is None:
        return None
    current = trials[0].values

    def rank(trial: Trial) -> tuple[float, float, int, int]:
        changes = sum(value != current[name] for name, value in trial.values.items())
        score = round(trial.change_pct or 0.0, SCORE_DIGITS)
        return (trial.over_limit_points, score, changes, trial.number)

    return min((trial for trial in trials if trial.change_pct is not None), key=rank)
