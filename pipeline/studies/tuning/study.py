"""A tuning study and its trials, in rounds that the optimiser asks for; stored as every `StoredStudy`.

STUDY/study.json           the plan
STUDY/inputs/              what every trial replays (pipeline/studies/tuning/inputs.py)
STUDY/rounds/N.json        the trials that round N asked for; round 0: the current settings, and each
other value of each setting alone
STUDY/trials/ID.json       a trial's record
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from foundation.errors import LucidError
from foundation.progress import Progress, silent
from lucid_models.packing.tree import PackingSettings
from pipeline.replay.job_types import JobTypes
from pipeline.studies.study import OK, Record, StoredStudy, run_stages
from pipeline.studies.tuning.inputs import TuningWindows
from pipeline.studies.tuning.space import LUCID, SearchSpace, TuningBase, next_trials
from pipeline.studies.tuning.trials import TrialReplayer, trial_id
from pipeline.studies.tuning.tuned_part import FigureLimit, Value, tuned_parts

SHORTEST_S = 1.0  # an objective below a second counts as one: per cent of nothing mean nothing
LIMIT_PRICE = 10.0  # per cent of the objective for a point beyond a limit: no gain is worth one
SCORE_DIGITS = 6  # of per cent; what differs by less is the same


@dataclass(frozen=True)
class TuningStudy(StoredStudy[Mapping[str, Value]]):
    """A planned study. `sha256` names what its trials depend on and how they are chosen.

    `parts` are the settings of the release's parts, by their fields; `limits` how much their figures may be
    (the gate's rules when it was planned). `policy` is what the release runs.
    """

    kind = "study"
    unit = "trial"
    records = "trials"
    how_to_begin = "Plan it first: `lucid tune`."
    opening_rounds = 1

    cluster: str
    sha256: str
    inputs_sha256: str
    windows: TuningWindows
    space: SearchSpace
    settings: Mapping[str, Any]
    packing: PackingSettings
    objective: str
    round_size: int
    job_types: JobTypes
    seed: int
    hold_out_days: int
    as_of: str | None
    base_release: int | None
    remarks: tuple[str, ...]
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: tuple[FigureLimit, ...] = ()
    policy: str = LUCID

    @property
    def inputs_uri(self) -> str:
        """Return where the frozen inputs are."""
        return f"{self.uri}/inputs"

    @property
    def base(self) -> TuningBase:
        """What held when it was planned."""
        return TuningBase(self.settings, self.packing, self.base_release, self.parts, self.policy)

    def identity(self, values: Mapping[str, Value]) -> str:
        """A trial's identity."""
        return trial_id(values, self.inputs_sha256)

    @classmethod
    def read_fields(cls, uri: str, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the windows, the space, and what parts have in the plan."""
        return {
            "windows": TuningWindows.from_data(plan["windows"]),
            "space": SearchSpace.from_data(plan["space"]),
            "packing": PackingSettings(**plan["packing"]),
            "parts": {part.field: plan[part.field] for part in tuned_parts() if part.field in plan},
            "limits": tuple(
                limit._replace(limit=plan[limit.field])
                for limit in (part.limit() for part in tuned_parts())
                if limit.field in plan
            ),
        }

    # -- rounds ----------------------------------------------------------------------------------------------

    def asked_in(self, stage: str, number: int) -> list[str]:
        """Round 0 asks for the current settings and for every other value of each alone.

        A later round goes by what the rounds before it found.
        """
        stored = self.stored_round(number, lambda: {"trials": self._choose(number)})
        return [self.identity(values) for values in stored["trials"]]

    def _choose(self, number: int) -> list[dict[str, Value]]:
        if number == 0:
            return self.space.one_at_a_time()
        earlier = self.trials()
        self.check_evaluated(number, sum(trial.record is None for trial in earlier))
        if earlier[0].change_pct is None:
            raise LucidError(
                f"The current settings cannot be replayed: {(earlier[0].record or {}).get('error')}",
                remedy="Nothing can be compared with them: fix that first.",
            )
        return next_trials(
            self.space,
            [(trial.values, trial.score) for trial in earlier],
            seed=self.seed,
            round_number=number,
            size=self.round_size,
        )

    def item(self, identity: str) -> Mapping[str, Value] | None:
        """Return the values of a trial."""
        asked = (values for stored in self.stored_rounds() for values in stored["trials"])
        return next((values for values in asked if self.identity(values) == identity), None)

    def run(self, identity: str, item: Mapping[str, Value], progress: Progress = silent) -> Record:
        """Replay a trial on every search block."""
        return self.replayer.run(identity, item)

    def label(self, item: Mapping[str, Value]) -> str:
        """Name a trial by what it changes."""
        current = self.space.current
        changes = [f"{name} {value}" for name, value in item.items() if value != current[name]]
        return ", ".join(changes) or "the current settings"

    @property
    def replayer(self) -> TrialReplayer:
        """What replays its trials; the last study's is kept for this process's next trial."""
        return _replayer_of(self.uri)

    def trials(self) -> list["Trial"]:
        """Return the trials of all rounds, numbered in the order in which they were asked for."""
        values_by_round = [
            (number, values)
            for number, stored in enumerate(self.stored_rounds())
            for values in stored["trials"]
        ]
        records = [self.record(self.identity(values)) for _, values in values_by_round]
        current = records[0] if records else None
        return [
            Trial(
                i,
                number,
                self.identity(values),
                values,
                record,
                _change_pct(self, record, current),
                _over_limit_points(self, record),
            )
            for i, ((number, values), record) in enumerate(zip(values_by_round, records, strict=True))
        ]


@lru_cache(maxsize=1)
def _replayer_of(study_uri: str) -> TrialReplayer:
    study = TuningStudy.load(study_uri)
    return TrialReplayer(
        inputs_uri=study.inputs_uri,
        cluster=study.cluster,
        windows=study.windows,
        base=study.base,
        job_types=study.job_types,
        seed=study.seed,
    )


def run_study(study: TuningStudy, *, trials: int, workers: int = 1, progress: Progress = silent) -> int:
    """Run the current settings, each other value alone, and about `trials` more by the optimiser.

    Whole rounds are run. Trials with a result are not run again; returns how many were run now.
    """
    rounds = -(-trials // study.round_size)
    names = ["one change at a time", *(f"round {number} of {rounds}" for number in range(1, 1 + rounds))]
    stages = [(name, partial(study.ask, number=number)) for number, name in enumerate(names)]
    return run_stages(study, stages, workers=workers, progress=progress)


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
