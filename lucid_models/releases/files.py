"""Turns a release's files into scorers, or refuses them: the one check that publisher and scheduler share.

Needs NumPy only.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foundation.errors import LucidError, ReleaseRefusedError
from foundation.parts import at_place
from lucid_models.model_format import MAX_FILE_BYTES, parse_model
from lucid_models.releases.manifest import MODEL_KINDS, ReleaseManifest
from lucid_models.releases.optional_parts import optional_parts
from lucid_models.scoring import (
    DurationScorer,
    PackingScorer,
    Scorer,
    ThroughputForecasts,
    ThroughputScorer,
    scorer_from_document,
)


@dataclass(frozen=True)
class ReleaseScorers:
    """The models of one release, ready to score; `forecasts` are those that its parts go by, by kind."""

    packing: PackingScorer
    throughput: ThroughputForecasts | ThroughputScorer
    duration: DurationScorer
    forecasts: Mapping[str, Any] = field(default_factory=dict)


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
    packing, throughput, duration = (loaded.pop(kind) for kind in MODEL_KINDS)
    if (
        not isinstance(packing, PackingScorer)
        or not isinstance(throughput, ThroughputForecasts | ThroughputScorer)
        or not isinstance(duration, DurationScorer)
    ):
        raise ReleaseRefusedError("A file of the release holds another kind of model than the manifest says.")
    scorers = ReleaseScorers(packing, throughput, duration, loaded)
    try:
        for name, part in optional_parts().items():
            if part.kind in loaded:
                at_place(part.check)(loaded[part.kind], manifest.parts.get(name, {}))
        probe(scorers)
    except ReleaseRefusedError:
        raise
    except Exception as error:  # whatever a damaged model raises must not reach the scheduler
        raise ReleaseRefusedError(f"A model of the release fails on a probe: {error!r}.") from error
    return scorers


def check_size(manifest: ReleaseManifest, kind: str, size: int) -> None:
    """Refuse a file of another size than the pinned one, or larger than a scheduler accepts."""
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
    job = {"job_id": "probe", "gpus": 1, "user": "probe", "virtual_cluster": "probe", "name": "probe"}
    estimate = scorers.duration.estimate([job])[0]
    if not all(0 < value < math.inf for value in (estimate.p50_s, estimate.p90_s, estimate.mean_s)):
        raise ReleaseRefusedError(f"The duration model estimates {estimate.p50_s} s on a probe.")
