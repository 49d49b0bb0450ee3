"""Which settings a study proposes, and the guard against luck.

The best of many trials looks better than it is, because the luck of its blocks was chosen with it. So the one
candidate is replayed beside the current settings on days that chose nothing, and judged by the gate's own
rules with no margin: it must be better beyond the paired bootstrap interval (simulator/gate/bootstrap.py), on
enough blocks of days and virtual clusters, and break none of the gate's constraints. Otherwise the current
settings stay, and the proposal says why.

A proposal changes nothing by itself: it becomes a challenger, which the gate judges on the held-out window.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from foundation.errors import LucidError, NotFoundError
from foundation.jsonable import to_jsonable
from foundation.progress import Progress, silent
from pipeline.release.release_settings import gate_settings
from pipeline.studies.store import read_json, write_json
from pipeline.studies.tuning.inputs import VALIDATION
from pipeline.studies.tuning.space import THRESHOLDS, shown, symbol_of
from pipeline.studies.tuning.study import Trial, TuningStudy, best_trial
from pipeline.studies.tuning.trials import WindowReplay
from pipeline.studies.tuning.tuned_part import Value
from simulator.gate.judge import judge
from simulator.gate.limits import number
from simulator.gate.metrics import MeasuredWindow

PROPOSAL_FILE = "proposal.json"
CURRENT, TUNED = "current", "tuned"
_OBJECTIVE_WORDS = {
    "mean_jct_s": "mean JCT",
    "mean_queuing_delay_s": "mean queuing delay",
    "p99_queuing_delay_s": "P99 queuing delay",
    "p999_queuing_delay_s": "P99.9 queuing delay",
}


@dataclass(frozen=True)
class Proposal:
    """What a study came to.

    - `changes`: the settings that the best trial changes, {name: {"from", "to"}}; empty: none is better.
    - `search`: the best trial's number and its score on the search blocks (per cent).
    - `validation`: the objective's change with its interval, and the figures of both, on the validation
      window; None when there was nothing to validate.
    - `proposed`: whether the changes passed the guard; `sentence` says why, or why not.
    """

    cluster: str
    study_sha256: str
    objective: str
    trials: int
    changes: Mapping[str, Mapping[str, Value]]
    search: Mapping[str, Any]
    validation: Mapping[str, Any] | None
    proposed: bool
    sentence: str

    @property
    def values(self) -> dict[str, Value]:
        """The settings to change, and to what."""
        return {name: change["to"] for name, change in self.changes.items()}

    @property
    def changes_packing(self) -> bool:
        """Whether the packing model has to be trained anew."""
        return any(name in THRESHOLDS for name in self.changes)

    def to_dict(self) -> dict[str, Any]:
        """The proposal as plain values."""
        return dict(to_jsonable(asdict(self)))


def propose(study: TuningStudy, *, progress: Progress = silent) -> Proposal:
    """Validate the best trial by the installation's rules of the gate, its margin aside, and store and return
    the proposal.

    Raises LucidError when the current settings have no figures.
    """
    trials = study.trials()
    best = best_trial(trials)
    if best is None:
        why = (trials[0].record or {}).get("error") if trials else "no trial was run"
        raise LucidError(f"The current settings were not replayed: {why}.", remedy="Run the study first.")
    current = trials[0]
    changes = {
        name: {"from": current.values[name], "to": value}
        for name, value in best.values.items()
        if value != current.values[name]
    }
    search = {
        "trial": best.number,
        "change_pct": best.change_pct,
        "before": current.mean_figure(study.objective),
        "after": best.mean_figure(study.objective),
    }
    done = sum(trial.change_pct is not None for trial in trials)
    word = _OBJECTIVE_WORDS[study.objective]
    validation, proposed = None, False
    if not changes:
        sentence = (
            f"None of {done - 1} other settings had a lower {word} on the search blocks: nothing changes."
        )
    else:
        progress(0, None, "validating the best trial")
        validation = _validate(study, current, best)
        proposed, why = _passes(validation)
        verb = "Proposed" if proposed else "Not proposed"
        sentence = f"{verb}: {_changes_text(changes)}. {why}"
    proposal = Proposal(
        study.cluster, study.sha256, study.objective, done, changes, search, validation, proposed, sentence
    )
    write_json(f"{study.uri}/{PROPOSAL_FILE}", proposal.to_dict())
    return proposal


def read_proposal(study: TuningStudy) -> Proposal:
    """Read a study's stored proposal. Raises NotFoundError when there is none."""
    document = read_json(f"{study.uri}/{PROPOSAL_FILE}")
    if document is None:
        raise NotFoundError(f"The study at {study.uri} has no proposal yet.", remedy="Propose first.")
    return Proposal(**document)


def _validate(study: TuningStudy, current: Trial, best: Trial) -> dict[str, Any]:
    replays = {
        name: study.replayer.replay(trial.values, VALIDATION)
        for name, trial in ((TUNED, best), (CURRENT, current))
    }
    verdict = judge(
        {name: found.result for name, found in replays.items()},
        challenger=TUNED,
        champion=CURRENT,
        rules=replace(gate_settings({}).rules, objective=study.objective, margin_pct=0.0, margin_floor_s=0.0),
        assumptions=study.remarks,
        window=_measured(replays[CURRENT]),
    )
    return {
        "objective": verdict.objective,
        "broken": [constraint.sentence for constraint in verdict.constraints if constraint.passed is False],
        "figures": {name: found.figures() for name, found in replays.items()},
    }


def _measured(replay: WindowReplay) -> MeasuredWindow:
    inputs = replay.inputs
    return MeasuredWindow(inputs.start_s, inputs.end_s, round(inputs.mean_gpus))


def _passes(validation: Mapping[str, Any]) -> tuple[bool, str]:
    objective = validation["objective"]
    if objective.get("change_high_s") is None:
        return False, f"The validation window gives no interval: {objective['reason']}."
    change = (
        f"On the validation window {_OBJECTIVE_WORDS[objective['name']]} goes from "
        f"{number(objective['reference'])} to {number(objective['challenger'])} s"
    )
    if objective["change_pct"] is not None:
        # The bounds that judge: those of the percentage may lie on the other side of zero.
        low_s, high_s = objective["change_low_s"], objective["change_high_s"]
        change += f" ({objective['change_pct']:+.2f} %; {low_s:+,.1f} to {high_s:+,.1f} s)"
    if not objective["change_high_s"] < 0:
        outcome = "worse" if (objective["change_low_s"] or 0) > 0 else "not better beyond chance"
        return False, f"{change}: {outcome}, so the current settings stay."
    if not objective["interval_reliable"]:
        return False, f"{change}, but the interval is {objective['interval_note']}: validate on more days."
    if validation["broken"]:
        return False, f"{change}, but: {' '.join(validation['broken'])}"
    return True, f"{change}."


def _changes_text(changes: Mapping[str, Mapping[str, Value]]) -> str:
    return ", ".join(
        f"{symbol_of(name)} {shown(name, change['from'])} -> {shown(name, change['to'])}"
        for name, change in changes.items()
    )
