"""Prove a release: replay the held-out window, let the gate judge, and write the verdict beside the release.

The window lies after everything that the challenger has learned from. Challenger and champion schedule with
the policy that each runs, by its own estimates, sharing scores and settings; their rivals are the site's
order, FIFO, SJF (which reads true run times), QSSF, a user-history estimate, and Tiresias. The waits of the
site's order are graded beside those of the log.
 A release that was chosen for
predictability is judged by it: the ends of its jobs, and of the champion's, are predicted as the policies
play out, by what each estimates. Validating a release on the same lake
again gives the same verdict; only the measured decision latency differs, and `Verdict.digest` leaves that
out.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from foundation.errors import BadInputError, NotFoundError, ReleaseRefusedError
from foundation.process_lock import scratch_folder
from foundation.run_manifest import run_manifest
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.aliases import CHAMPION
from lucid_models.releases.lifecycle import load_release_models, record_verdict, show_release
from lucid_models.releases.store import check_verdict, find_by_alias
from lucid_models.releases.studies import record_study
from lucid_models.signing.installation import Signing
from pipeline.release.release_settings import GateSettings, gate_settings
from pipeline.replay.wait_grade import grade_of_replay
from pipeline.validation.contenders import learned_until
from pipeline.validation.contest import Candidate, Candidates, Contest, make_contest, replay_all
from pipeline.validation.decision_latency import decision_latency_ms
from pipeline.validation.held_out_data import HeldOutData, HeldOutWindow, held_out_window, read_held_out
from pipeline.validation.held_out_days import USUAL_DAYS, HeldOutDays
from pipeline.validation.model_checks import check_models, check_profiles
from pipeline.validation.part_checks import JudgedRelease, part_findings
from pipeline.validation.replay_inputs import ReplayInputs, replay_inputs
from pipeline.validation.verdict_facts import assumptions_about, digests_of, how_predicted, subject_of
from simulator.gate.judge import ReleaseChecks, judge, refuse
from simulator.gate.metrics import MeasuredWindow
from simulator.gate.report import write_report
from simulator.gate.rules import SITE_ORDER, GateRules
from simulator.gate.verdict import Constraint, Verdict
from simulator.results.result import SimulationResult
from simulator.wait_fidelity.grade import WaitGrade


@dataclass(frozen=True)
class Validation:
    """What the gate said of which release, and the page of the run that keeps it, below MLflow's address."""

    version: int
    verdict: Verdict
    mlflow_path: str


def validate_release(
    site: Site,
    *,
    version: int | None = None,
    held_out: HeldOutDays = USUAL_DAYS,
    settings: GateSettings | None = None,
    out_dir: Path | None = None,
) -> Validation:
    """Validate a release (default: the challenger) and record the verdict on it.

    `settings`: by default the installation's. Rules that were stated for this validation alone
    (`settings.stated`) make it a study, which is kept beside the release and leaves its verdict as it is.

    `held_out`: the last days of the log, which are the window; by default two weeks.

    Writes verdict.json, verdict.md, the policies' table, plots and run_manifest.json to `out_dir` and to
    MLflow. A refusal is a verdict, not an error. Raises NotFoundError for a missing release, job table or
    node table, and BadInputError when the window overlaps what the release has learned from.
    """
    site.progress(0, None, "loading the releases")
    if version is None:
        version = show_release(tracking_uri=site.registry, cluster=site.cluster, alias="challenger").version
    gate = settings or gate_settings({})
    if not gate.stated:
        Signing.of_environment().signers("judge")  # a key that is missing is told before the replays
    with scratch_folder("verdict") as scratch:
        folder = out_dir or scratch
        try:
            models = load_release_models(tracking_uri=site.registry, cluster=site.cluster, version=version)
            challenger = Candidate(version, models)
        except ReleaseRefusedError as error:
            verdict = _refuse_unloadable(version, site.cluster, error, gate, folder)
        else:
            verdict = prove(
                site,
                _beside_the_champion(site, challenger),
                held_out=held_out,
                settings=gate,
                out_dir=folder,
            )
        record = record_study if verdict.study else record_verdict
        page = record(
            tracking_uri=site.registry,
            cluster=site.cluster,
            version=version,
            verdict=verdict.to_dict(),
            artifacts_dir=folder,
        )
    return Validation(version, verdict, page)


def _beside_the_champion(site: Site, challenger: Candidate) -> Candidates:
    """The challenger and the release that is live, with what to say of the latter."""
    registry = Registry(site.registry)
    try:
        live = find_by_alias(registry, site.cluster, CHAMPION)
    except NotFoundError:
        return Candidates(challenger)
    if live.version == challenger.version:
        return Candidates(challenger, is_champion=True)
    try:
        # No scheduler follows a champion that an alias made, and no gate.
        check_verdict(registry, live)
        models = load_release_models(tracking_uri=site.registry, cluster=site.cluster, version=live.version)
    except (ReleaseRefusedError, NotFoundError) as error:
        remark = f"The champion (release {live.version}) does not hold and was not replayed: {error}"
        return Candidates(challenger, remarks=(remark,))
    return Candidates(challenger, Candidate(live.version, models))


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
    rules = settings.rules.to_data()
    return verdict.as_study({name: rules[name] for name in settings.stated})


def prove(
    site: Site, candidates: Candidates, *, held_out: HeldOutDays, settings: GateSettings, out_dir: Path
) -> Verdict:
    """As `validate_release`, with releases already loaded and nothing recorded."""
    challenger = candidates.challenger
    settings = settings.preferring(challenger.models.manifest.choice)
    rules = settings.rules
    window = _window(site, challenger, held_out, settings)
    site.progress(0, None, "reading the window")
    data = read_held_out(site, window)
    inputs = replay_inputs(data, job_types=settings.job_types, seed=settings.seed)
    jobs = data.jobs_with_profiles()
    forecasts = candidates.forecasts(data.throughput)
    site.progress(0, None, "estimating run times")
    contest = make_contest(candidates, inputs, jobs, forecasts)
    models = [
        check_profiles(challenger.models.manifest, challenger.version),
        *check_models(challenger.models, inputs, contest.beliefs(), forecasts.get("challenger"), rules),
    ]
    results = replay_all(contest, inputs, rules, site.progress)
    contenders = len(contest.contenders)
    judged = JudgedRelease(candidates, contest, results, inputs, site, rules)
    beside: dict[str, SimulationResult] = {}
    for found in part_findings(judged, site.progress):
        models += found.constraints
        beside |= found.replays
    site.progress(contenders, contenders, "timing decisions")
    latency = None
    if contest.estimates.usable:
        latency = decision_latency_ms(challenger.models, inputs, queued_jobs=rules.decision_jobs)
    measured = MeasuredWindow(inputs.start_s, inputs.end_s, round(inputs.mean_gpus))
    verdict = judge(
        results,
        challenger="challenger",
        champion=contest.reference,
        rules=rules,
        checks=ReleaseChecks(
            contest.estimates,
            models,
            latency,
            grade=_grade(inputs, results),
            beside=beside,
        ),
        assumptions=_assumptions(candidates, inputs, contest, data, rules),
        window=measured,
        subject=subject_of(candidates, inputs, site.cluster),
    )
    verdict = _as_asked(verdict, settings)
    site.progress(contenders, contenders, "writing the verdict")
    write_report(verdict, results, out_dir, window=measured)
    manifest = run_manifest(
        inputs=digests_of(candidates, inputs, jobs),
        seeds={"bootstrap": rules.seed, "job_types": settings.seed},
        settings={
            **asdict(settings),
            "rules": rules.to_data(),
            "hold_out_days": held_out.days,
            "cluster": site.cluster,
        },
    )
    text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False) + "\n"
    (out_dir / "run_manifest.json").write_text(text, encoding="utf-8")
    return verdict


def _grade(inputs: ReplayInputs, results: Mapping[str, SimulationResult]) -> WaitGrade:
    scenario = inputs.scenario
    rows = scenario.workload.rows
    return grade_of_replay(
        inputs.replayed,
        scenario,
        inputs.order,
        results[SITE_ORDER],
        earlier=inputs.earlier,
        counted=inputs.judged if rows is None else inputs.judged[rows],
    )


def _window(
    site: Site, challenger: Candidate, held_out: HeldOutDays, settings: GateSettings
) -> HeldOutWindow:
    manifest = challenger.models.manifest
    if manifest.cluster != site.cluster:
        raise BadInputError(
            f"Release {challenger.version} was built for cluster {manifest.cluster!r}, not for "
            f"{site.cluster!r}.",
            remedy=f"Validate it with --cluster {manifest.cluster}, or build a release for {site.cluster}.",
        )
    until = learned_until(manifest)
    if until is None:
        raise BadInputError(
            f"Release {challenger.version} does not say until when its models have learned.",
            remedy="Build it again with the end of its training window.",
        )
    return held_out_window(
        site,
        learned_until=until,
        hold_out_days=held_out.days,
        warm_up_days=settings.warm_up_days,
        as_of=held_out.as_of,
    )


def _assumptions(
    candidates: Candidates, inputs: ReplayInputs, contest: Contest, data: HeldOutData, rules: GateRules
) -> list[str]:
    remarks = [*candidates.remarks, *inputs.assumptions, *assumptions_about(candidates, inputs.window)]
    if rules.judges_predictions:
        remarks.append(how_predicted(inputs, rules))
    if data.throughput is None:
        remarks.append("The lake holds no throughput of the window: no forecast took part.")
    return [*remarks, *contest.remarks]
