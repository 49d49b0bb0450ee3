"""What a release's loans do on the held-out window: its jobs once more, with servers of inference."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from foundation.errors import BadInputError
from lucid_models.releases.lifecycle import ReleaseModels
from parts.lending.load.series import InferenceSeries
from parts.lending.replay.gate_limits import GroupQueuing, LoanEvidence, loaned_servers
from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.released_loans import ReleasedLoans
from parts.lending.steps.lending import Lending
from parts.lending.steps.lending_replay import known_load, load_of
from pipeline.validation.contenders import replay_contender
from pipeline.validation.part_checks import GateCheck, JudgedRelease, PartFindings
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.results.result import SimulationResult

DAY_S = 86_400.0
LENDS, CHAMPION_LENDS = "challenger, with loans", "champion, with loans"


class LoanedServersCheck(GateCheck):
    """What servers on loan may not cost: the jobs once more, of the champion with its own loans."""

    step = "lending servers"

    def check(self, judged: JudgedRelease) -> PartFindings:
        """Judge a replay of the release with servers on loan, beside that without."""
        if "loaning" not in judged.models.manifest.parts:
            return PartFindings()
        evidence, replays = _loan_replays(judged)
        return PartFindings(loaned_servers(evidence, judged.rules), replays)


GATE_CHECK = LoanedServersCheck()


def _loan_replays(judged: JudgedRelease) -> tuple[LoanEvidence, dict[str, SimulationResult]]:
    """What was seen with servers on loan, and the schedules by name.

    Virtual clusters with fewer than `fairness_min_jobs` jobs in the window are no group.
    """
    inputs, release = judged.inputs, judged.models
    series = load_of(judged.site.of(release.manifest.cluster), inputs.window.end)
    if isinstance(series, str):
        return LoanEvidence(unmeasured=series), {}
    try:
        lending = lending_of(release, series, inputs)
    except BadInputError as error:
        return LoanEvidence(unmeasured=str(error)), {}
    challenger, champion = judged.contender("challenger"), judged.contender("champion")
    without = judged.results.get("challenger")
    if challenger is None or without is None:
        return LoanEvidence(unmeasured="the release could not be replayed."), {}
    results = {LENDS: replay_contender(*lending.beside(challenger, inputs))}
    live = judged.candidates.loaded.get("champion")
    if live is not None and "loaning" in live.manifest.parts and champion is not None:
        lent = lending_of(live, series, inputs).beside(champion, inputs)
        results[CHAMPION_LENDS] = replay_contender(*lent)
    short_pct = lending.short_pct(results[LENDS].kept[InferenceService.key], inputs)
    if short_pct is None:
        return LoanEvidence(unmeasured="no five-minute step of the window was measured."), {}
    evidence = LoanEvidence(short_pct=short_pct, coverage=_coverage(lending, inputs))
    return _with_jobs(evidence, results, without, inputs, judged.rules.fairness_min_jobs), results


def lending_of(release: ReleaseModels, series: InferenceSeries, inputs: ReplayInputs) -> Lending:
    """Return what a release lends in a window and its warm-up; raises BadInputError without its load."""
    settings = ReleasedLoans.from_data(release.manifest.parts.get("loaning", {}))
    scorer = release.forecasts.get("inference_load") if settings.usage == "forecast" else None
    window = inputs.window
    load = known_load(series, window.warm_up_start, window.end, scorer, settings.quantile)
    if load.times_s[0] > window.start.timestamp():
        raise BadInputError(
            f"The inference load begins after the held-out days do ({window.start:%Y-%m-%d %H:%M} UTC)."
        )
    return Lending(load, settings.loans)


def _coverage(lending: Lending, inputs: ReplayInputs) -> dict[float, float]:
    """Of the window alone, not of the warm-up."""
    load = lending.load
    inside = load.times_s >= inputs.window.start.timestamp()
    return replace(
        load,
        usage=load.usage[inside],
        gap=load.gap[inside],
        bounds={level: bound[inside] for level, bound in load.bounds.items()},
    ).coverage


def _with_jobs(
    evidence: LoanEvidence,
    results: Mapping[str, SimulationResult],
    without_loans: SimulationResult,
    inputs: ReplayInputs,
    group_min_jobs: int,
) -> LoanEvidence:
    """Add what became of the window's jobs."""
    lent, without = (_judged(result, inputs) for result in (results[LENDS], without_loans))
    champion = _judged(results[CHAMPION_LENDS], inputs) if CHAMPION_LENDS in results else None
    return replace(
        evidence,
        preemptions=max(0, int(lent["preemptions"].sum() - without["preemptions"].sum())),
        submissions=len(lent),
        days=(inputs.end_s - inputs.start_s) / DAY_S,
        worst_group=_worst_group(lent, without, group_min_jobs),
        with_loans_jct_s=float(lent["jct_s"].mean()),
        without_jct_s=float(without["jct_s"].mean()),
        champion_jct_s=None if champion is None else float(champion["jct_s"].mean()),
    )


def _judged(result: SimulationResult, inputs: ReplayInputs) -> pd.DataFrame:
    """The window's jobs, in the one order that all replays share."""
    jobs = result.counted
    inside = (jobs["submit_time_s"] >= inputs.start_s) & (jobs["submit_time_s"] < inputs.end_s)
    return jobs[inside].sort_values(["submit_time_s", "job_id"], kind="stable").reset_index(drop=True)


def _worst_group(lent: pd.DataFrame, without: pd.DataFrame, least_jobs: int) -> GroupQueuing | None:
    """The virtual cluster that loans delay most in the mean; of equal ones the first by name."""
    means = pd.DataFrame(
        {
            "lent": lent["queuing_delay_s"],
            "without": without["queuing_delay_s"],
            "group": lent["virtual_cluster"],
        }
    ).groupby("group", sort=True)
    table = means[["lent", "without"]].mean()[means.size() >= least_jobs]
    if table.empty:
        return None
    name = str((table["lent"] - table["without"]).idxmax())
    return GroupQueuing(name, float(table["lent"][name]), float(table["without"][name]))
