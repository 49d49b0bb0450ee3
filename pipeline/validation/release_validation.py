"""Prove a release: replay the held-out window, let the gate judge, and write the verdict beside the release.

The window lies after everything that the challenger has learned from. Challenger and champion schedule with
the policy that each runs, by its own estimates, sharing scores and settings; their rivals are FIFO, SJF
(which reads true run times), QSSF, a user-history estimate, and Tiresias. A release that was chosen for
predictability is judged by it: the ends of its jobs, and of the champion's, are predicted as the policies
play out, by what each estimates. Validating a release on the same lake
again gives the same verdict; only the measured decision latency differs, and `Verdict.digest` leaves that
out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.lake import Lake
from cluster_logs.validation import validate_table
from foundation.errors import BadInputError, NotFoundError, ReleaseRefusedError
from foundation.leftovers import scratch_folder
from foundation.progress import Progress, silent
from foundation.run_manifest import frame_sha256, run_manifest
from lucid_models.known_profiles import with_known_profiles
from lucid_models.releases.manifest import DEFAULT_POLICY, ReleaseManifest
from pipeline.release.release_settings import GateSettings, gate_settings
from pipeline.search.pareto.front_choice import amount
from pipeline.validation.contenders import (
    Contender,
    LoadedRelease,
    learned_until,
    release_contender,
    replay_contender,
    rival_contenders,
)
from pipeline.validation.decision_latency import decision_latency_ms
from pipeline.validation.forecast_beliefs import (
    SeriesForecast,
    believed_throughput,
    forecast_series,
    read_window_throughput,
)
from pipeline.validation.model_checks import check_models, check_profiles
from pipeline.validation.replay_inputs import HeldOutWindow, ReplayInputs, held_out_window, read_inputs
from simulator.colocation import MeasuredPairs
from simulator.forecast import ThroughputForecast
from simulator.gate.judge import judge, refuse
from simulator.gate.metrics import EstimateCheck, MeasuredWindow, check_estimates
from simulator.gate.report import write_report
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Constraint, Verdict
from simulator.result import SimulationResult

LATENCY_REPEATS = 7
PREDICTIONS = "duration_predictions"  # a suite of cluster_logs.expectations


@dataclass(frozen=True)
class Candidate:
    """A release to judge or to judge against."""

    version: int
    models: LoadedRelease


@dataclass(frozen=True)
class Validation:
    """What the gate said of which release, and the page of the run that keeps it, below MLflow's address."""

    version: int
    verdict: Verdict
    mlflow_path: str


def validate_release(
    *,
    lake_uri: str,
    cluster: str,
    tracking_uri: str,
    version: int | None = None,
    hold_out_days: int = 14,
    as_of: datetime | None = None,
    settings: GateSettings | None = None,
    out_dir: Path | None = None,
    progress: Progress | None = None,
) -> Validation:
    """Validate a release (default: the challenger) and record the verdict on it.

    `settings`: by default the installation's. Rules that were stated for this validation alone
    (`settings.stated`) make it a study, which is kept beside the release and leaves its verdict as it is.

    The window is the last `hold_out_days` of the log, or of the log as it was at `as_of`.

    Writes verdict.json, verdict.md, the policies' table, plots and run_manifest.json to `out_dir` and to
    MLflow. A refusal is a verdict, not an error. Raises NotFoundError for a missing release, job table or
    node table, and BadInputError when the window overlaps what the release has learned from.
    """
    from lucid_models.releases.lifecycle import load_release_models, record_verdict, show_release
    from lucid_models.releases.studies import record_study

    report = progress or silent
    report(0, None, "loading the releases")
    if version is None:
        version = show_release(tracking_uri=tracking_uri, cluster=cluster, alias="challenger").version
    chosen = settings or gate_settings({})
    with scratch_folder("verdict") as scratch:
        folder = out_dir or scratch
        try:
            models = load_release_models(tracking_uri=tracking_uri, cluster=cluster, version=version)
            challenger = Candidate(version, models)
        except ReleaseRefusedError as error:
            verdict = _refuse_unloadable(version, cluster, error, chosen, folder)
        else:
            champion, live, said = _champion(tracking_uri, cluster, version)
            verdict = prove(
                challenger,
                champion,
                lake_uri=lake_uri,
                cluster=cluster,
                hold_out_days=hold_out_days,
                as_of=as_of,
                settings=chosen,
                out_dir=folder,
                progress=report,
                is_champion=live == version,
                assumptions=said,
            )
        if verdict.study:
            page = record_study(
                tracking_uri=tracking_uri,
                cluster=cluster,
                version=version,
                study=verdict.to_dict(),
                artifacts_dir=folder,
            )
        else:
            page = record_verdict(
                tracking_uri=tracking_uri,
                cluster=cluster,
                version=version,
                verdict=verdict.to_dict(),
                artifacts_dir=folder,
            )
    return Validation(version, verdict, page)


def _champion(
    tracking_uri: str, cluster: str, challenger: int
) -> tuple[Candidate | None, int | None, list[str]]:
    """The release to judge against, the version that is live, and what to say of it."""
    from lucid_models.releases.aliases import CHAMPION
    from lucid_models.releases.clusters import open_registry
    from lucid_models.releases.lifecycle import load_release_models
    from lucid_models.releases.store import check_verdict, find_by_alias

    registry = open_registry(tracking_uri)
    try:
        live = find_by_alias(registry, cluster, CHAMPION)
    except NotFoundError:
        return None, None, []
    if live.version == challenger:
        return None, live.version, []
    try:
        # No scheduler follows a champion that an alias made, and no gate.
        check_verdict(registry, live)
        models = load_release_models(tracking_uri=tracking_uri, cluster=cluster, version=live.version)
    except (ReleaseRefusedError, NotFoundError) as error:
        said = f"The champion (release {live.version}) does not hold and was not replayed: {error}"
        return None, live.version, [said]
    return Candidate(live.version, models), live.version, []


def _refuse_unloadable(
    version: int, cluster: str, error: ReleaseRefusedError, settings: GateSettings, out_dir: Path
) -> Verdict:
    broken = Constraint("release_loads", "releases", 0.0, None, 1.0, False, str(error))
    subject = {"cluster": cluster, "release": version}
    verdict = _as_asked(
        refuse(broken, challenger="challenger", rules=settings.rules, subject=subject), settings
    )
    write_report(verdict, {}, out_dir)
    return verdict


def _as_asked(verdict: Verdict, settings: GateSettings) -> Verdict:
    """The verdict; a study of it when rules were stated for this validation alone."""
    if not settings.stated:
        return verdict
    return verdict.as_study({name: getattr(settings.rules, name) for name in settings.stated})


def prove(
    challenger: Candidate,
    champion: Candidate | None,
    *,
    lake_uri: str,
    cluster: str,
    hold_out_days: int,
    settings: GateSettings,
    out_dir: Path,
    as_of: datetime | None = None,
    progress: Progress = silent,
    is_champion: bool = False,
    assumptions: Sequence[str] = (),
) -> Verdict:
    """As `validate_release`, with releases already loaded and nothing recorded."""
    settings = settings.preferring(challenger.models.manifest.choice)
    window = _window(challenger, lake_uri, cluster, hold_out_days, settings, as_of)
    progress(0, None, "reading the window")
    inputs = read_inputs(
        lake_uri=lake_uri, cluster=cluster, window=window, job_types=settings.job_types, seed=settings.seed
    )
    lake = Lake(lake_uri)
    jobs = with_known_profiles(lake.read_jobs(cluster, end=window.end), lake.read_job_metrics(cluster))
    throughput = read_window_throughput(lake_uri, cluster, window.warm_up_start, window.end)
    said = [*assumptions, *inputs.assumptions, *_assumptions(challenger, champion, window, is_champion)]
    if settings.rules.judges_predictions:
        said.append(_how_foretold(inputs, settings.rules))
    if throughput is None:
        said.append("The lake holds no throughput of the window: no forecast took part.")
    rules = settings.rules
    forecasts = _forecasts(challenger, champion, throughput)
    contenders, estimates, reference = _contenders(
        challenger, champion, inputs, jobs, forecasts, said, progress
    )
    beliefs = {one.name: _beliefs(one) for one in contenders}
    models = [
        check_profiles(challenger.models.manifest, challenger.version),
        *check_models(challenger.models, inputs, beliefs, forecasts.get("challenger"), rules),
    ]
    measured = _measured_window(inputs)
    results = _replay(contenders, inputs, rules, progress)
    progress(len(contenders), len(contenders), "timing decisions")
    latency = None
    if estimates.usable:
        latency = decision_latency_ms(
            challenger.models, inputs, queued_jobs=rules.decision_jobs, repeats=LATENCY_REPEATS
        )
    verdict = judge(
        results,
        challenger="challenger",
        champion=reference,
        rules=rules,
        decision_latency_ms=latency,
        assumptions=said,
        window=measured,
        estimates=estimates,
        models=models,
        subject=_subject(challenger, champion, window, inputs, cluster),
    )
    verdict = _as_asked(verdict, settings)
    progress(len(contenders), len(contenders), "writing the verdict")
    write_report(verdict, results, out_dir, window=measured)
    manifest = run_manifest(
        inputs=_digests(challenger, champion, inputs, jobs),
        seeds={"bootstrap": rules.seed, "job_types": settings.seed},
        settings={**asdict(settings), "hold_out_days": hold_out_days, "cluster": cluster},
    )
    text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False) + "\n"
    (out_dir / "run_manifest.json").write_text(text, encoding="utf-8")
    return verdict


def _window(
    challenger: Candidate,
    lake_uri: str,
    cluster: str,
    hold_out_days: int,
    settings: GateSettings,
    as_of: datetime | None,
) -> HeldOutWindow:
    manifest = challenger.models.manifest
    if manifest.cluster != cluster:
        raise BadInputError(
            f"Release {challenger.version} was built for cluster {manifest.cluster!r}, not for {cluster!r}.",
            remedy=f"Validate it with --cluster {manifest.cluster}, or build a release for {cluster}.",
        )
    until = learned_until(manifest)
    if until is None:
        raise BadInputError(
            f"Release {challenger.version} does not say until when its models have learned.",
            remedy="Build it again with the end of its training window.",
        )
    return held_out_window(
        lake_uri=lake_uri,
        cluster=cluster,
        learned_until=until,
        hold_out_days=hold_out_days,
        warm_up_days=settings.warm_up_days,
        as_of=as_of,
    )


def _contenders(
    challenger: Candidate,
    champion: Candidate | None,
    inputs: ReplayInputs,
    jobs: pd.DataFrame,
    forecasts: Mapping[str, Mapping[str, SeriesForecast]],
    said: list[str],
    progress: Progress,
) -> tuple[list[Contender], EstimateCheck, str | None]:
    """All that can be replayed, the check of the challenger's estimates, and the champion's name."""
    progress(0, None, "estimating run times")
    rivals = rival_contenders(inputs)
    rolling = next(r.estimated_duration_s for r in rivals if r.name == "qssf")
    assert rolling is not None  # noqa: S101 - made three lines above
    judged = inputs.judged
    contenders: list[Contender] = []

    def running(name: str, release: LoadedRelease) -> Contender:
        forecast = _load_to_come(forecasts.get(name), inputs)
        return release_contender(name, release, inputs, rolling, jobs, forecast)

    first = running("challenger", challenger.models)
    estimates = _check(_beliefs(first)[judged])
    if estimates.usable and _known_scores(first):
        contenders.append(first)
    reference = None
    if champion is not None:
        second = running("champion", champion.models)
        if check_estimates(_beliefs(second)[judged]).usable and _known_scores(second):
            contenders.append(second)
            reference = "champion"
        else:
            said.append(
                f"The champion (release {champion.version}) gives unusable predictions on this window and "
                "was not replayed."
            )
    return [*contenders, *rivals], estimates, reference


def _known_scores(contender: Contender) -> bool:
    scores = contender.sharing_scores
    return scores is None or bool(np.isin(scores[np.isfinite(scores)], (0, 1, 2)).all())


def _forecasts(
    challenger: Candidate, champion: Candidate | None, throughput: pd.DataFrame | None
) -> dict[str, dict[str, SeriesForecast]]:
    """Each release's forecasts by contender and series; empty without throughput."""
    if throughput is None:
        return {}
    releases = {"challenger": challenger, "champion": champion}
    return {
        name: forecast_series(candidate.models.throughput, throughput)
        for name, candidate in releases.items()
        if candidate is not None
    }


def _load_to_come(
    series: Mapping[str, SeriesForecast] | None, inputs: ReplayInputs
) -> ThroughputForecast | None:
    if series is None or not all(np.isfinite(one.forecast).all() for one in series.values()):
        return None  # what is not finite `check_models` refuses, and a policy could do nothing with it
    return believed_throughput(series, inputs.replayed["submit_time"].iloc[0], inputs.window.end)


def _check(estimated_duration_s: NDArray[np.float64]) -> EstimateCheck:
    """The gate's own count, and the expectations that every model's predictions must meet."""
    checked = validate_table(pd.DataFrame({"estimated_duration_s": estimated_duration_s}), PREDICTIONS)
    return replace(check_estimates(estimated_duration_s), failed_expectations=checked.failed)


def _beliefs(contender: Contender) -> NDArray[np.float64]:
    return np.empty(0) if contender.estimated_duration_s is None else contender.estimated_duration_s


def _replay(
    contenders: list[Contender], inputs: ReplayInputs, rules: GateRules, progress: Progress
) -> dict[str, SimulationResult]:
    predicted = _foretold_jobs(inputs, rules)
    colocation = MeasuredPairs(inputs.measured.pairs)
    results = {}
    for index, contender in enumerate(contenders):
        progress(index, len(contenders), f"replaying {contender.name}")

        def within(
            done: int, total: int | None, what: str, index: int = index, contender: Contender = contender
        ) -> None:
            progress(index, len(contenders), f"replaying {contender.name}: {done:,} of {total or 0:,} jobs")

        results[contender.name] = replay_contender(
            contender,
            inputs,
            inputs.cluster,
            colocation,
            within,
            # Of releases alone: nobody else's ends are compared.
            predict=predicted if contender.name in ("challenger", "champion") else (),
            predict_by=rules.foretold_by,
        )
    return results


def _foretold_jobs(inputs: ReplayInputs, rules: GateRules) -> frozenset[str]:
    """The ids of the window's jobs whose ends are predicted: all, or as many as the rules say at random."""
    if not rules.judges_predictions:
        return frozenset()
    ids = inputs.replayed.loc[inputs.judged, "job_id"].astype(str).to_numpy(dtype=object)
    if len(ids) > rules.foretold_jobs:
        ids = np.random.default_rng(rules.seed).choice(ids, rules.foretold_jobs, replace=False)
    return frozenset(ids.tolist())


def _measured_window(inputs: ReplayInputs) -> MeasuredWindow:
    origin = pd.Timestamp(inputs.replayed["submit_time"].iloc[0])
    start_s = (pd.Timestamp(inputs.window.start) - origin).total_seconds()
    end_s = (pd.Timestamp(inputs.window.end) - origin).total_seconds()
    return MeasuredWindow(start_s, end_s, round(inputs.mean_gpus))


def _assumptions(
    challenger: Candidate, champion: Candidate | None, window: HeldOutWindow, is_champion: bool
) -> list[str]:
    said = [
        (
            "When a past job ended, and so when its run time was known to an estimate, is taken from the "
            "log, not from the replay."
        ),
    ]
    if is_champion:
        said.append(f"Release {challenger.version} is itself the champion; it is judged against FIFO.")
    if champion is not None:
        until = learned_until(champion.models.manifest)
        if until is None or until > window.start:
            said.append(
                f"The champion (release {champion.version}) may have learned from a part of the window, "
                "which favours it."
            )
    for candidate in (challenger, champion):
        if candidate is not None and candidate.models.manifest.policy != DEFAULT_POLICY:
            manifest = candidate.models.manifest
            said.append(
                f"Release {candidate.version} runs {manifest.policy}, by its models' estimates of run times, "
                f"not by the true ones{_as_chosen(manifest)}."
            )
    provenance = challenger.models.manifest.provenance
    if provenance.simulated_profiles:
        said.append("The packing model learned from profiles of the simulated GPU.")
    if provenance.synthetic_logs:
        said.append("The log is synthetic.")
    return said


def _how_foretold(inputs: ReplayInputs, rules: GateRules) -> str:
    jobs, judged = len(_foretold_jobs(inputs, rules)), int(inputs.judged.sum())
    by = (
        "the run times that each release estimates: their errors are in the errors of prediction"
        if rules.foretold_by == "estimated"
        else "true run times, which nobody knows beforehand: what is uncertain is when a job gets its GPUs"
    )
    return f"The ends of {jobs:,} of {judged:,} jobs were foretold at their submission, by {by}."


def _as_chosen(manifest: ReleaseManifest) -> str:
    if manifest.choice is None:
        return ""
    expected = ", ".join(
        f"{name} {amount(value)}" for name, value in manifest.choice.get("expected", {}).items()
    )
    return f"; it is point {manifest.choice.get('point')} of a front, on which were expected {expected}"


def _subject(
    challenger: Candidate,
    champion: Candidate | None,
    window: HeldOutWindow,
    inputs: ReplayInputs,
    cluster: str,
) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "release": challenger.version,
        "policy": challenger.models.manifest.policy,
        "champion_release": champion.version if champion else None,
        "champion_policy": champion.models.manifest.policy if champion else None,
        "learned_until": _iso(learned_until(challenger.models.manifest)),
        "window_start": _iso(window.start),
        "window_end": _iso(window.end),
        "warm_up_start": _iso(window.warm_up_start),
        "jobs_judged": int(inputs.judged.sum()),
        "jobs_in_warm_up": int((~inputs.judged).sum()),
        "gpus": round(inputs.mean_gpus),
        "virtual_clusters": len(inputs.cluster.virtual_clusters),
    }


def _digests(
    challenger: Candidate, champion: Candidate | None, inputs: ReplayInputs, jobs: pd.DataFrame
) -> Mapping[str, Any]:
    digests: dict[str, Any] = {
        "jobs": {"rows": len(jobs), "sha256": frame_sha256(jobs)},
        "replayed_jobs": {"rows": len(inputs.replayed), "sha256": frame_sha256(inputs.replayed)},
        "pairs": {"rows": len(inputs.measured.pairs), "sha256": frame_sha256(inputs.measured.pairs)},
        "nodes": dict(inputs.cluster.virtual_clusters)
        | {"gpus_per_node": inputs.cluster.gpus_per_node, "changes": len(inputs.changes)},
    }
    for name, candidate in (("challenger", challenger), ("champion", champion)):
        if candidate is not None:
            manifest = candidate.models.manifest
            digests[name] = {"version": candidate.version, "sha256": manifest.content_sha256()}
    return digests


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat(timespec="seconds")
