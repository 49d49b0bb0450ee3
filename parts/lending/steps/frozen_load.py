"""The inference load that trials replay with servers on loan: the lake's bins, and a forecast of them.

The forecast learned until the first block begins, as a release's would have; trials of one study share both.
"""

import json
from datetime import datetime

import pandas as pd

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from foundation.storage import read_bytes, write_bytes
from lucid_models.model_format import parse_model
from parts.lending.load.series import InferenceSeries, read_inference_series
from parts.lending.replay.released_loans import ReleasedLoans
from parts.lending.steps.lending_replay import KnownLoad, known_load
from parts.lending.usage.model import InferenceLoadModel
from parts.lending.usage.scorer import InferenceLoadScorer
from pipeline.validation.held_out_data import HeldOutWindow

MODEL_FILE = f"{InferenceLoadScorer.kind}.json"


def read_known_load_rows(site: Site, until: datetime) -> pd.DataFrame:
    """Return the rows of load that were known at `until`; raises NotFoundError where there are none."""
    rows = Lake(site.lake).read_series("inference_load", site.cluster, None, until)
    if rows.empty:
        raise NotFoundError(
            f"The lake has no inference load of {site.cluster!r} before {until:%Y-%m-%d %H:%M} UTC: the "
            "release's servers on loan cannot be tuned.",
            remedy="Ingest the load of those days, or hold out fewer days.",
        )
    return rows


def store_load(rows: pd.DataFrame, cluster: str, folder_uri: str, learned_until: datetime) -> tuple[str, ...]:
    """Freeze the load beside the other inputs, and a forecast that learned until a moment; returns what is to
    be said of them.
    """
    Lake(folder_uri).write_series("inference_load", cluster, rows.drop(columns="cluster", errors="ignore"))
    series = read_inference_series(rows)
    ended = int((series.times_s + series.bin_s <= learned_until.timestamp()).sum())
    try:
        if not ended:
            raise BadInputError("there is no load before the first block.")
        model = InferenceLoadModel().fit(series.first(ended))
    except BadInputError as error:
        return (f"Servers are lent by the newest finished bin, not by a forecast: {error}",)
    write_bytes(f"{folder_uri}/{MODEL_FILE}", json.dumps(model.to_data(), allow_nan=False).encode())
    return ()


def read_frozen_load(
    folder_uri: str, cluster: str, window: HeldOutWindow, loaning: ReleasedLoans
) -> KnownLoad:
    """Return what the orchestrator knew in a window and its warm-up."""
    series = _frozen_series(folder_uri, cluster)
    payload = read_bytes(f"{folder_uri}/{MODEL_FILE}") if loaning.usage == "forecast" else None
    scorer = None
    if payload is not None:
        document = parse_model(payload, kind=InferenceLoadScorer.kind, source=MODEL_FILE)
        scorer = InferenceLoadScorer.from_data(document)
    return known_load(series, window.warm_up_start, window.end, scorer, loaning.quantile)


def _frozen_series(folder_uri: str, cluster: str) -> InferenceSeries:
    return read_inference_series(
        Lake(folder_uri).read_series("inference_load", cluster), f"The study {folder_uri}"
    )
