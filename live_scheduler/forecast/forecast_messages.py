"""What the daemon and the process of its forecasts say to each other: lines of JSON, plain values only.

{"new": null or [job id, ...], "cluster": {...}, "run_times": {...}, "settings": {...}, ...}
{"forecast": {...}}   {"predictions": {...}}   {"problem": "..."}
"""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from live_scheduler.cluster_state import ClusterState
from live_scheduler.deciding.sharing_beliefs import PredictedPairs
from live_scheduler.forecast.completion_forecast import CompletionForecast
from live_scheduler.forecast.forecast_inputs import ForecastInputs
from live_scheduler.forecast.prediction import Prediction
from live_scheduler.forecast.run_times import RunTime
from live_scheduler.live_settings import LiveSettings
from lucid_models.model_format import Fields
from lucid_models.packing.pairwise import PairwiseScorer
from simulator.workload.colocation import BelievedPairs
from simulator.workload.job import JobProfile

Answer = CompletionForecast | dict[str, Prediction] | str

# By the names of fields and of answers.
_INPUTS: dict[str, TypeAdapter[Any]] = {
    "cluster": TypeAdapter(ClusterState),
    "run_times": TypeAdapter(dict[str, RunTime]),
    "settings": TypeAdapter(LiveSettings),
    "release": TypeAdapter(str),
    "profiles": TypeAdapter(dict[str, JobProfile]),
    "seed": TypeAdapter(int),
    "samples": TypeAdapter(int),
    "alike": TypeAdapter(tuple[float, ...]),
}
_ANSWERS: dict[str, TypeAdapter[Any]] = {
    "forecast": TypeAdapter(CompletionForecast),
    "predictions": TypeAdapter(dict[str, Prediction]),
    "problem": TypeAdapter(str),
}


def question(inputs: ForecastInputs, new: Sequence[str] | None = None) -> bytes:
    """Ask for a forecast, or for the predictions of new jobs."""
    fields = {name: kind.dump_python(getattr(inputs, name), mode="json") for name, kind in _INPUTS.items()}
    pairs = inputs.believed_pairs
    # What the packing model of a release predicts of pairs; nothing else is believed of them live.
    scorer = pairs.speeds.scorer if pairs is not None and isinstance(pairs.speeds, PredictedPairs) else None
    fields["pairs"] = None if scorer is None else scorer.to_data()
    fields["mean_speed_min"] = None if pairs is None else pairs.mean_speed_min
    return _line({**fields, "new": None if new is None else list(new)})


def read_question(line: bytes) -> tuple[ForecastInputs, list[str] | None]:
    """Read what `question` wrote."""
    fields = json.loads(line)
    pairs = None
    if fields["pairs"] is not None:
        scorer = PairwiseScorer.from_data(Fields(fields["pairs"], "the pairs' model"))
        pairs = BelievedPairs(PredictedPairs(scorer), fields["mean_speed_min"])
    inputs = {name: kind.validate_python(fields[name]) for name, kind in _INPUTS.items()}
    return ForecastInputs(**inputs, believed_pairs=pairs), fields["new"]


def answer_line(answer: Answer) -> bytes:
    """Write an answer, or why there is none."""
    kind = "problem" if isinstance(answer, str) else "predictions" if isinstance(answer, dict) else "forecast"
    return _line({kind: _ANSWERS[kind].dump_python(answer, mode="json")})


def read_answer(line: bytes) -> Answer:
    """Read what `answer_line` wrote; raises ValueError."""
    document = json.loads(line)
    ((kind, content),) = document.items()
    if kind not in _ANSWERS:
        raise ValueError(f"an answer {kind!r}")
    answer: Answer = _ANSWERS[kind].validate_python(content)
    return answer


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
