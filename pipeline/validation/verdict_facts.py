"""What a verdict says beside its figures: assumptions, what was judged, and digests of the inputs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from cluster_logs.job_table import to_digest
from foundation.run_manifest import frame_sha256
from lucid_models.amounts import amount
from lucid_models.releases.manifest import DEFAULT_POLICY, ReleaseManifest
from pipeline.validation.contenders import learned_until
from pipeline.validation.contest import Candidates, predicted_jobs
from pipeline.validation.held_out_data import HeldOutWindow
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.gate.rules import GateRules


def assumptions_about(candidates: Candidates, window: HeldOutWindow) -> list[str]:
    """What has to be known about the releases to read their verdict."""
    challenger, champion = candidates.challenger, candidates.champion
    remarks = [
        (
            "When a past job ended, and so when its run time was known to an estimate, is taken from the "
            "log, not from the replay."
        ),
    ]
    if candidates.is_champion:
        remarks.append(
            f"Release {challenger.version} is itself the champion; it is judged against the site's order."
        )
    if champion is not None:
        until = learned_until(champion.models.manifest)
        if until is None or until > window.start:
            remarks.append(
                f"The champion (release {champion.version}) may have learned from a part of the window, "
                "which favours it."
            )
    for candidate in (challenger, champion):
        if candidate is not None and candidate.models.manifest.policy != DEFAULT_POLICY:
            manifest = candidate.models.manifest
            remarks.append(
                f"Release {candidate.version} runs {manifest.policy}, by its models' estimates of run times, "
                f"not by the true ones{_as_chosen(manifest)}."
            )
    if challenger.models.manifest.orders_only:
        remarks.append(f"Release {challenger.version} orders jobs and lets none share GPUs.")
    provenance = challenger.models.manifest.provenance
    if provenance.simulated_profiles:
        decides = ", and decides nothing" if challenger.models.manifest.orders_only else ""
        remarks.append(f"The packing model learned from profiles of the simulated GPU{decides}.")
    if provenance.synthetic_logs:
        remarks.append("The log is synthetic.")
    return remarks


def how_predicted(inputs: ReplayInputs, rules: GateRules) -> str:
    """Of how many jobs the ends were predicted, and by which run times."""
    jobs, judged = len(predicted_jobs(inputs, rules)), int(inputs.judged.sum())
    by = (
        "the run times that each release estimates: their errors are in the errors of prediction"
        if rules.foretold_by == "estimated"
        else "true run times, which are unknown beforehand: what is uncertain is when a job gets its GPUs"
    )
    return f"The ends of {jobs:,} of {judged:,} jobs were predicted at their submission, by {by}."


def _as_chosen(manifest: ReleaseManifest) -> str:
    if manifest.choice is None:
        return ""
    expected = ", ".join(
        f"{name} {amount(value)}" for name, value in manifest.choice.get("expected", {}).items()
    )
    return f"; it is point {manifest.choice.get('point')} of a front, on which were expected {expected}"


def subject_of(candidates: Candidates, inputs: ReplayInputs, cluster: str) -> dict[str, Any]:
    """What was judged, and on what."""
    challenger, champion, window = candidates.challenger, candidates.champion, inputs.window
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
        "jobs_in_warm_up": int((~inputs.in_window).sum()),
        "gpus": round(inputs.mean_gpus),
        "virtual_clusters": len(inputs.scenario.cluster.names),
        "site_order": inputs.order.words,
    }


def digests_of(candidates: Candidates, inputs: ReplayInputs, jobs: pd.DataFrame) -> Mapping[str, Any]:
    """SHA-256 of the tables and releases, for the run's manifest."""
    cluster, changes = inputs.scenario.cluster, inputs.scenario.changes
    digests: dict[str, Any] = {
        "jobs": {"rows": len(jobs), "sha256": frame_sha256(to_digest(jobs))},
        "replayed_jobs": {"rows": len(inputs.replayed), "sha256": frame_sha256(to_digest(inputs.replayed))},
        "pairs": {"rows": len(inputs.measured.pairs), "sha256": frame_sha256(inputs.measured.pairs)},
        "nodes": dict(cluster.virtual_clusters)
        | {"gpus_per_node": cluster.gpus_per_node, "changes": len(changes)},
    }
    for name, candidate in (("challenger", candidates.challenger), ("champion", candidates.champion)):
        if candidate is not None:
            manifest = candidate.models.manifest
            digests[name] = {"version": candidate.version, "sha256": manifest.content_sha256()}
    return digests


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat(timespec="seconds")
