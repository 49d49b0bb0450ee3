"""Turns a release's files into scorers, or refuses them: the one check that publisher and scheduler share.

Needs NumPy only.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from foundation.errors import LucidError, ReleaseRefusedError
from lucid_models.inference_load.scorer import InferenceLoadScorer
from lucid_models.model_format import MAX_FILE_BYTES, parse_model
from lucid_models.node_demand.scorer import NodeDemandScorer
from lucid_models.releases.manifest import MODEL_KINDS, ReleaseManifest
from lucid_models.releases.optional_parts import LOAD_KIND, NODE_KIND, WAITS_KIND
from lucid_models.scoring import (
    DurationScorer,
    PackingScorer,
    Scorer,
    ThroughputForecasts,
    ThroughputScorer,
    scorer_from_document,
)
from lucid_models.waits.queue_moment import queue_of_jobs
from lucid_models.waits.scorer import WaitScorer


@dataclass(frozen=True)
class ReleaseScorers:
    """The models of one release, ready to score; `node_demand` None: it forecasts no nodes, `inference_load`
    None: no inference, `waits` None: no waits.
    """

    packing: PackingScorer
    throughput: ThroughputForecasts | ThroughputScorer
    duration: DurationScorer
    node_demand: NodeDemandScorer | None = None
    inference_load: InferenceLoadScorer | None = None
    waits: WaitScorer | None = None


def load_release_scorers(manifest: ReleaseManifest, files: Mapping[str, bytes]) -> ReleaseScorers:
    """Check every file of a release against its manifest, load all models and score a probe with each.

    `files` maps the manifest's file names to their bytes. Raises ReleaseRefusedError that names the file,
    what was expected and what was found; nothing is returned unless everything holds.
    """
    loaded: dict[str, Scorer] = {}
    for kind, pin in manifest.models.items():
        payload = files.get(pin.file)
        if payload is None:
            raise ReleaseRefusedError(
                f"The release lacks its file {pin.file}.", remedy="Build the release again."
            )
        check_size(manifest, kind, len(payload))
        digest = hashlib.sha256(payload).hexdigest()
        if digest != pin.sha256:
            raise ReleaseRefusedError(
                f"{pin.file} has the SHA-256 {digest}; the manifest pins {pin.sha256}.",
                remedy="The file was changed or damaged: fetch it again, or build the release again.",
            )
        try:
            loaded[kind] = scorer_from_document(parse_model(payload, kind=kind, source=pin.file))
        except LucidError as error:
            raise ReleaseRefusedError(f"The {kind} model of the release does not load: {error}") from error
    packing, throughput, duration = (loaded[kind] for kind in MODEL_KINDS)
    nodes, load, waits = (loaded.get(kind) for kind in (NODE_KIND, LOAD_KIND, WAITS_KIND))
    if (
        not isinstance(packing, PackingScorer)
        or not isinstance(throughput, ThroughputForecasts | ThroughputScorer)
        or not isinstance(duration, DurationScorer)
        or not isinstance(nodes, NodeDemandScorer | None)
        or not isinstance(load, InferenceLoadScorer | None)
        or not isinstance(waits, WaitScorer | None)
    ):
        raise ReleaseRefusedError("A file of the release holds another kind of model than the manifest says.")
    if nodes is not None:
        check_near_bins(nodes, manifest.node_sleep or {})
    if load is not None:
        check_quantile(load, manifest.loaning or {})
    scorers = ReleaseScorers(packing, throughput, duration, nodes, load, waits)
    try:
        probe(scorers)
    except ReleaseRefusedError:
        raise
    except Exception as error:  # whatever a damaged model raises must not reach the scheduler
        raise ReleaseRefusedError(f"A model of the release fails on a probe: {error!r}.") from error
    return scorers


def check_near_bins(nodes: NodeDemandScorer, node_sleep: Mapping[str, Any]) -> None:
    """Refuse a forecast that looks ahead another time than the control's settings say (Helios' f)."""
    wanted, ahead = node_sleep.get("near_bins"), nodes.features.near_bins
    if node_sleep.get("control") == "forecast" and wanted != ahead:
        raise ReleaseRefusedError(
            f"The forecast of nodes looks {ahead} bins ahead; the settings of sleeping nodes say near_bins = "
            f"{wanted}.",
            remedy=f"Set near_bins to {ahead}, or train with it: lucid train nodes --near-bins {wanted}.",
        )


def check_quantile(load: InferenceLoadScorer, loaning: Mapping[str, Any]) -> None:
    """Refuse a forecast without the quantile that the settings of servers on loan go by."""
    wanted, levels = loaning.get("quantile"), list(load.start.multiples)
    if loaning.get("usage") == "forecast" and wanted not in levels:
        raise ReleaseRefusedError(
            f"The forecast of inference has no quantile {wanted}, by which the settings lend servers.",
            remedy=f"Set quantile to one of {', '.join(f'{level:g}' for level in levels)}.",
        )


def check_size(manifest: ReleaseManifest, kind: str, size: int) -> None:
    """Refuse a file whose size is not the pinned one, or larger than a scheduler accepts."""
    pin = manifest.models[kind]
    if size != pin.bytes or size > MAX_FILE_BYTES:
        raise ReleaseRefusedError(
            f"{pin.file} holds {size} bytes; the manifest pins {pin.bytes}, of at most {MAX_FILE_BYTES}.",
            remedy="The file was cut off or changed: fetch it again, or build the release again.",
        )


def probe(scorers: ReleaseScorers) -> None:
    """Score one plain input with each model; raises ReleaseRefusedError when an answer makes no sense."""
    score = int(scorers.packing.predict(50.0, 30.0, 4_000.0, 0)[0])
    if score not in (0, 1, 2):
        raise ReleaseRefusedError(
            f"The packing model gives the Sharing Score {score} on a probe, not 0, 1 or 2."
        )
    throughput = scorers.throughput
    members = throughput.scorers.values() if isinstance(throughput, ThroughputForecasts) else (throughput,)
    for member in members:
        bins = min(member.features.history_bins, 2_000)
        forecast = float(member.predict_next(np.ones(bins), 0, 1)[0])
        if not 0 <= forecast < math.inf:
            raise ReleaseRefusedError(
                f"The throughput model forecasts {forecast} {member.series} on a probe."
            )
    if scorers.node_demand is not None:
        ahead = scorers.node_demand.forecast(np.ones(300), 0.0)
        if not all(0 <= value < math.inf for value in (ahead.near_mean, ahead.far_mean)):
            raise ReleaseRefusedError(
                f"The node demand model forecasts {ahead.near_mean} busy nodes on a probe."
            )
    if scorers.inference_load is not None:
        usage = scorers.inference_load.forecast(np.full(300, 0.5), 0.0)
        if not all(0 <= value <= 1 for value in (usage.mean, *usage.quantiles.values())):
            raise ReleaseRefusedError(
                f"The inference load model forecasts a usage of {usage.mean} on a probe."
            )
    if scorers.waits is not None:
        _probe_waits(scorers.waits)
    job = {"job_id": "probe", "gpus": 1, "user": "probe", "virtual_cluster": "probe", "name": "probe"}
    estimate = scorers.duration.estimate([job])[0]
    if not all(0 < value < math.inf for value in (estimate.p50_s, estimate.p90_s, estimate.mean_s)):
        raise ReleaseRefusedError(f"The duration model estimates {estimate.p50_s} s on a probe.")


def _probe_waits(waits: WaitScorer) -> None:
    queue = queue_of_jobs(0.0, [{"submit_s": -60.0, "cpus": 1.0, "limit_s": 3_600.0}], [])
    p50_s, p90_s = waits.forecast(queue, ["probe"])[0].tolist()
    if not 0 <= p50_s <= p90_s < math.inf:
        raise ReleaseRefusedError(f"The wait model forecasts {p50_s} s and {p90_s} s on a probe.")
