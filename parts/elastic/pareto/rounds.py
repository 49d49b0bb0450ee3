"""Rounds of candidates: chosen by the optimiser, simulated by any worker, read back from their records.

Each candidate is tried on the first sample of the workload; only those that come near the front there are
tried on all. Candidates with equal configurations are one. A record is known by the configuration and the
sample, so a search that was interrupted goes on where it stopped, and workers on any machines may fill the
same folder.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from foundation.errors import LucidError, NotFoundError
from foundation.progress import Progress, silent
from parts.elastic.allocation import Pool
from parts.elastic.configurations import configuration_from_json, configuration_to_json
from parts.elastic.pareto.inputs import Collected, read_collected
from parts.elastic.pareto.objectives import front_positions
from parts.elastic.pareto.samples import Purpose, draw_sample, evaluate
from parts.elastic.pareto.search import first_parameters, next_parameters, on_scale, parameters_between
from parts.elastic.pareto.size_classes import InfeasibleError, WfqParameters
from parts.elastic.pareto.study import ParetoSearch, load_study
from parts.elastic.rules.wfq import WfqConfig
from pipeline.studies.store import digest, read_json
from simulator.workload.workload import Workload

NEAR = 0.03  # a candidate is near the front unless another is better by as much in every objective
CLOSE = 0.01  # likewise, for those that are tried on fresh samples
IDENTITY_DIGITS = 16

Evaluation = tuple[str, str]  # a candidate's identity, a sample's name


@dataclass(frozen=True)
class TriedConfiguration:
    """A configuration that the search tries, with what is known of it: measures by sample.

    `error` says why it could not be simulated.
    """

    identity: str
    round_number: int
    parameters: WfqParameters
    config: WfqConfig
    measures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    error: str | None = None

    def values(self, study: ParetoSearch, samples: Sequence[str]) -> tuple[float, ...]:
        """Return its objectives: means over these samples, all of which must be known."""
        return tuple(
            sum(self.measures[sample][str(objective)] for sample in samples) / len(samples)
            for objective in study.objectives
        )

    def knows(self, samples: Sequence[str]) -> bool:
        """Whether it was tried on all of these samples."""
        return all(sample in self.measures for sample in samples)


def search_samples(study: ParetoSearch) -> list[str]:
    """Return the names of the samples that choose; the first is the one that all are tried on."""
    return [f"search-{number}" for number in range(study.samples)]


def held_out_samples(study: ParetoSearch) -> list[str]:
    """Return the names of the fresh samples."""
    return [f"held_out-{number}" for number in range(study.held_out_samples)]


def ask_round(study: ParetoSearch, number: int) -> list[Evaluation]:
    """Choose the candidates of a round, once, and return the simulations that are left to run.

    Those are its own on the first sample, and what earlier candidates near the front lack. Raises
    BadInputError when a round before it was not asked for or simulated.
    """
    stored = study.stored_round(number, lambda: _choose(study, number))
    return _without_record(study, [(identity, sample) for identity, sample in stored["evaluations"]])


def ask_confirmations(study: ParetoSearch) -> list[Evaluation]:
    """Return what is left to simulate of candidates near the front, once all rounds are done."""
    return _without_record(study, _lacking(within_3pct(study, candidates_of(study)), search_samples(study)))


def ask_held_out(study: ParetoSearch) -> list[Evaluation]:
    """Return the simulations that are left of the found front on fresh samples."""
    return _without_record(study, _lacking(within_1pct(study, candidates_of(study)), held_out_samples(study)))


def within_3pct(study: ParetoSearch, candidates: Sequence[TriedConfiguration]) -> list[TriedConfiguration]:
    """Return the candidates that no other beats clearly on the first sample."""
    return _unbeaten(study, candidates, search_samples(study)[:1], NEAR)


def within_1pct(study: ParetoSearch, candidates: Sequence[TriedConfiguration]) -> list[TriedConfiguration]:
    """Return those on the front by all samples of the search, and those that chance may have kept from it."""
    return _unbeaten(study, candidates, search_samples(study), CLOSE)


def _unbeaten(
    study: ParetoSearch, candidates: Sequence[TriedConfiguration], samples: Sequence[str], margin: float
) -> list[TriedConfiguration]:
    """Return those on the front by these samples, and those beaten by no more than the margin.

    Of candidates with equal figures only the first: they differ in what no job ever meets.
    """
    evaluated = [candidate for candidate in candidates if candidate.knows(samples)]
    points = [candidate.values(study, samples) for candidate in evaluated]
    if not evaluated:
        return []
    best = {points[i] for i in front_positions(points)}
    clearly = np.array(sorted(best)) * (1 + margin)
    beaten = [bool((clearly <= np.array(point)).all(axis=1).any()) for point in points]
    first = {point: candidate for candidate, point in zip(reversed(evaluated), reversed(points), strict=True)}
    return [
        candidate
        for candidate, point, is_beaten in zip(evaluated, points, beaten, strict=True)
        if first[point] is candidate and (point in best or not is_beaten)
    ]


def front_on_all_samples(
    study: ParetoSearch, candidates: Sequence[TriedConfiguration]
) -> list[TriedConfiguration]:
    """Return those on the front by all samples of the search."""
    samples = search_samples(study)
    evaluated = [candidate for candidate in candidates if candidate.knows(samples)]
    return [
        evaluated[i] for i in front_positions([candidate.values(study, samples) for candidate in evaluated])
    ]


def _choose(study: ParetoSearch, number: int) -> dict[str, Any]:
    """Return a round's candidates, and the simulations that it asks for."""
    candidates = candidates_of(study)
    study.check_evaluated(number, sum(not c.measures and c.error is None for c in candidates))
    configurations = _new_configurations(study, number, candidates)
    samples = search_samples(study)
    return {
        "candidates": [
            {"parameters": parameters.to_data(), "configuration": configuration_to_json(config)}
            for parameters, config in configurations
        ],
        "evaluations": [
            *([identity_of(study, config), samples[0]] for _, config in configurations),
            *_lacking(within_3pct(study, candidates), samples),
        ],
    }


def _new_configurations(
    study: ParetoSearch, number: int, candidates: Sequence[TriedConfiguration]
) -> list[tuple[WfqParameters, WfqConfig]]:
    sizes_s = collected_of(study.uri).sizes_s
    identities = {candidate.identity for candidate in candidates}
    configs: list[tuple[WfqParameters, WfqConfig]] = []

    def accept(parameters: WfqParameters) -> bool:
        try:
            config = parameters.config(sizes_s)
        except InfeasibleError:
            return False
        identity = identity_of(study, config)
        if identity in identities:
            return False
        identities.add(identity)
        configs.append((parameters, config))
        return True

    size = study.round_size
    if number == 0:
        first_parameters(study.bounds, sizes_s, accept, seed=study.seed, size=size)
    else:
        estimated = [
            (candidate, on_scale(study.objectives, values))
            for candidate, values in estimates(study, candidates)
        ]
        if not estimated:
            raise LucidError(f"No candidate of {study.uri} could be simulated: {candidates[0].error}")
        scored = [(candidate.parameters, values) for candidate, values in estimated]
        # Gaps are looked for among those tried on all samples: an estimate may close one in appearance.
        samples = search_samples(study)
        measured = [
            (candidate.parameters, values) for candidate, values in estimated if candidate.knows(samples)
        ]
        parameters_between(
            study.bounds,
            measured or scored,
            accept,
            tried=[values[0] for _, values in scored],
            seed=study.seed,
            round_number=number,
            size=size // 2,
        )
        next_parameters(
            study.bounds, scored, accept, seed=study.seed, round_number=number, size=size - len(configs)
        )
    return configs


def estimates(
    study: ParetoSearch, candidates: Sequence[TriedConfiguration]
) -> list[tuple[TriedConfiguration, tuple[float, ...]]]:
    """Return each candidate's objectives over all samples, as far as they are known.

    One that was tried on the first sample alone is scaled by what the others' first sample says of all of
    theirs; one that did there exactly as another is taken to do so on all.
    """
    samples = search_samples(study)
    whole = [candidate for candidate in candidates if candidate.knows(samples)]
    scale = [1.0] * len(study.objectives)
    if whole:
        on_all = [candidate.values(study, samples) for candidate in whole]
        on_first = [candidate.values(study, samples[:1]) for candidate in whole]
        for i in range(len(scale)):
            first = sum(values[i] for values in on_first)
            scale[i] = sum(values[i] for values in on_all) / first if first else 1.0
    on_all_of = {
        candidate.values(study, samples[:1]): candidate.values(study, samples) for candidate in whole
    }
    estimated = []
    for candidate in candidates:
        if candidate.knows(samples):
            estimated.append((candidate, candidate.values(study, samples)))
        elif candidate.knows(samples[:1]):
            values = candidate.values(study, samples[:1])
            scaled = tuple(v * s for v, s in zip(values, scale, strict=True))
            estimated.append((candidate, on_all_of.get(values, scaled)))
    return estimated


def evaluate_batch(study_uri: str, evaluations: Sequence[Sequence[str]], progress: Progress = silent) -> int:
    """Simulate pairs of (identity, sample) and store what they find; what is known is not run again.

    A simulation that fails is a record, not an error. Returns how many were run.
    """
    study = load_study(study_uri)
    candidates = {candidate.identity: candidate for candidate in _asked(study)}
    records = study.evaluate(
        [_record_id(evaluation) for evaluation in evaluations],
        {
            _record_id((identity, sample)): (candidates[identity], sample)
            for identity, sample in evaluations
            if identity in candidates
        },
        lambda _, evaluation: _run(study, *evaluation),
        label=lambda evaluation: evaluation[1],
        progress=progress,
    )
    return len(records)


def _run(study: ParetoSearch, candidate: TriedConfiguration, sample: str) -> dict[str, Any]:
    collected = collected_of(study.uri)
    try:
        measures = evaluate(
            candidate.config,
            sample_of(study.uri, sample),
            Pool(collected.gpus, whole=collected.whole),
            study.objectives,
        )
    except (LucidError, ArithmeticError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"measures": measures}


@lru_cache(maxsize=2)
def collected_of(study_uri: str) -> Collected:
    """Return a stored search's workload; the last ones are kept for this process's next simulation."""
    return read_collected(load_study(study_uri).inputs_uri)


@lru_cache(maxsize=16)
def sample_of(study_uri: str, name: str) -> Workload:
    """Return a sample by name."""
    study = load_study(study_uri)
    purpose, _, number = name.rpartition("-")
    purposes: dict[str, Purpose] = {"search": "search", "held_out": "held_out", "comparison": "comparison"}
    return draw_sample(collected_of(study_uri).jobs, study.sampling, purposes[purpose], int(number))


def identity_of(study: ParetoSearch, config: WfqConfig) -> str:
    """Name what a candidate's figures depend on: its configuration and the workload."""
    document = {"inputs": study.inputs_sha256, **configuration_to_json(config)}
    return digest(document)[:IDENTITY_DIGITS]


def candidates_of(study: ParetoSearch) -> list[TriedConfiguration]:
    """Return the candidates of all rounds in the order in which they were asked for, with their records."""
    samples = [*search_samples(study), *held_out_samples(study)]
    candidates = []
    for candidate in _asked(study):
        records = {}
        for sample in samples:
            with suppress(NotFoundError):
                records[sample] = _record(study.record_uri(_record_id((candidate.identity, sample))))
        candidates.append(
            replace(
                candidate,
                measures={s: record["measures"] for s, record in records.items() if "measures" in record},
                error=next((record["error"] for record in records.values() if "error" in record), None),
            )
        )
    return candidates


def _asked(study: ParetoSearch) -> list[TriedConfiguration]:
    candidates: list[TriedConfiguration] = []
    for number in range(study.rounds):
        try:
            candidates += _asked_in_round(study.uri, study.sha256, number)
        except NotFoundError:
            break
    return candidates


@lru_cache(maxsize=1024)
def _asked_in_round(study_uri: str, study_sha256: str, number: int) -> tuple[TriedConfiguration, ...]:
    """Return a round's candidates, which never change; raises NotFoundError before it was asked for."""
    document = read_json(f"{study_uri}/rounds/{number}.json")
    if document is None:
        raise NotFoundError(f"Round {number} of {study_uri} was not asked for yet.")
    study = load_study(study_uri)
    candidates = []
    for stored in document["candidates"]:
        config = configuration_from_json(stored["configuration"])
        parameters = WfqParameters.from_data(stored["parameters"])
        candidates.append(TriedConfiguration(identity_of(study, config), number, parameters, config))
    return tuple(candidates)


@lru_cache(maxsize=2**16)
def _record(uri: str) -> dict[str, Any]:
    """Return what a simulation found, which never changes; raises NotFoundError while it has not run."""
    record = read_json(uri)
    if record is None:
        raise NotFoundError(f"There is no {uri}.")
    return record


def _lacking(candidates: Sequence[TriedConfiguration], samples: Sequence[str]) -> list[Evaluation]:
    return [
        (candidate.identity, sample)
        for candidate in candidates
        for sample in samples
        if sample not in candidate.measures
    ]


def _without_record(study: ParetoSearch, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    return [evaluation for evaluation in evaluations if not study.is_done(_record_id(evaluation))]


def _record_id(evaluation: Sequence[str]) -> str:
    return "-".join(evaluation)
