"""A Pareto search: candidates in rounds, simulated by any worker, read back from their records.

STUDY/study.json              the plan
STUDY/inputs/                 the collected workload (parts/elastic/pareto/inputs.py)
STUDY/rounds/N.json           the candidates that round N asked for
STUDY/evaluations/ID-S.json   what candidate ID did on sample S
STUDY/front.json, front.html  what is presented (parts/elastic/pareto/report.py)

Each candidate is tried on the first sample of the workload; only those that come near the front there are
tried on all. Candidates with equal configurations are one. A record is known by the configuration and the
sample; the rest is as of every `pipeline.studies.study.StoredStudy`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from foundation.errors import LucidError, NotFoundError
from foundation.progress import Progress, silent
from parts.elastic.allocation import Pool
from parts.elastic.configurations import configuration_from_json, configuration_to_json
from parts.elastic.pareto.inputs import Collected, read_collected
from parts.elastic.pareto.objectives import Objective, front_positions, preference_of
from parts.elastic.pareto.samples import Purpose, SampleSpec, draw_sample, evaluate
from parts.elastic.pareto.search import first_parameters, next_parameters, on_scale, parameters_between
from parts.elastic.pareto.size_classes import InfeasibleError, SearchBounds, WfqParameters
from parts.elastic.rules.wfq import WfqConfig
from pipeline.studies.store import digest, read_json
from pipeline.studies.study import Record, Stage, StoredStudy, run_stages
from simulator.workload.workload import Workload

NEAR = 0.03  # a candidate is near the front unless another is better by as much in every objective
CLOSE = 0.01  # likewise, for those that are tried on fresh samples
IDENTITY_DIGITS = 16
SEPARATOR = "-"  # of a simulation's identity: the candidate's, and the sample's name
CONFIRM, HOLD_OUT = "confirm", "hold_out"  # the stages after the rounds


@dataclass(frozen=True)
class ParetoSearch(StoredStudy["Simulation"]):
    """A planned search. `inputs_sha256` names what a candidate's figures depend on."""

    kind = "search"
    unit = "simulation"
    records = "evaluations"
    how_to_begin = "Begin one: `lucid pareto search`."

    sha256: str
    inputs_sha256: str
    name: str
    objectives: tuple[Objective, ...]
    evaluations: int
    sampling: SampleSpec
    samples: int
    held_out_samples: int
    round_size: int
    seed: int
    bounds: SearchBounds
    gpus: int
    whole_gpus: bool
    jobs: int
    about: Mapping[str, Any]
    remarks: tuple[str, ...]

    @property
    def inputs_uri(self) -> str:
        """Return where the frozen inputs are."""
        return f"{self.uri}/inputs"

    @property
    def rounds(self) -> int:
        """Rounds that `evaluations` need."""
        return -(-self.evaluations // self.round_size)

    @classmethod
    def read_fields(cls, uri: str, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the preference, and how samples and parameters are drawn."""
        return {
            "objectives": preference_of(tuple(plan["preference"])),
            "sampling": SampleSpec(**{**plan["sampling"], "ways": tuple(plan["sampling"]["ways"])}),
            "bounds": SearchBounds.from_data(plan["bounds"]),
        }

    def asked_in(self, stage: str, number: int) -> list[str]:
        """Return the simulations of a stage, each a candidate's identity and a sample's name.

        Of a round those are its candidates on the first sample, and what earlier ones near the front lack; a
        round that the plan does not have asks for nothing. CONFIRM: what candidates near the front lack, once
        all rounds are done; HOLD_OUT: the front on fresh samples, which chose nothing.
        """
        if stage == CONFIRM:
            return _lacking(within_3pct(self, candidates_of(self)), search_samples(self))
        if stage == HOLD_OUT:
            return _lacking(within_1pct(self, candidates_of(self)), held_out_samples(self))
        if number >= self.rounds:
            return []
        stored = self.stored_round(number, lambda: _choose(self, number))
        return [SEPARATOR.join(evaluation) for evaluation in stored["evaluations"]]

    def item(self, identity: str) -> "Simulation | None":
        """Return a candidate, and the name of the sample that it is simulated on."""
        name, _, sample = identity.partition(SEPARATOR)
        return next(((each, sample) for each in _asked(self) if each.identity == name), None)

    def run(self, identity: str, item: "Simulation", progress: Progress = silent) -> Record:
        """Simulate a candidate on a sample."""
        (candidate, sample), collected = item, collected_of(self.uri)
        pool = Pool(collected.gpus, whole=collected.whole)
        try:
            measures = evaluate(candidate.config, sample_of(self.uri, sample), pool, self.objectives)
        except (LucidError, ArithmeticError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"measures": measures}

    def label(self, item: "Simulation") -> str:
        """Name the sample."""
        return item[1]


def run_search(
    study: ParetoSearch,
    *,
    workers: int = 1,
    progress: Progress = silent,
    after_round: Callable[[ParetoSearch], object] | None = None,
) -> int:
    """Run all rounds, what is left to know near the front, and the front on fresh samples.

    Simulations with a result are not run again; returns how many were run now. `after_round` is called
    between rounds, to draw the front as it stands.
    """
    stages: list[Stage] = [
        (f"round {number + 1} of {study.rounds}", partial(study.ask, number=number))
        for number in range(study.rounds)
    ]
    stages.append(("the front on all samples", partial(study.ask, CONFIRM)))
    stages.append(("the front on fresh samples", partial(study.ask, HOLD_OUT)))
    after = None if after_round is None else partial(after_round, study)
    return run_stages(study, stages, workers=workers, progress=progress, after_stage=after)


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


Simulation = tuple[TriedConfiguration, str]  # on the sample of that name


def search_samples(study: ParetoSearch) -> list[str]:
    """Return the names of the samples that choose; the first is the one that all are tried on."""
    return [f"search-{number}" for number in range(study.samples)]


def held_out_samples(study: ParetoSearch) -> list[str]:
    """Return the names of the fresh samples."""
    return [f"held_out-{number}" for number in range(study.held_out_samples)]


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
            *(each.split(SEPARATOR, 1) for each in _lacking(within_3pct(study, candidates), samples)),
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


@lru_cache(maxsize=2)
def collected_of(study_uri: str) -> Collected:
    """Return a stored search's workload; the last ones are kept for this process's next simulation."""
    return read_collected(ParetoSearch.load(study_uri).inputs_uri)


@lru_cache(maxsize=16)
def sample_of(study_uri: str, name: str) -> Workload:
    """Return a sample by name."""
    study = ParetoSearch.load(study_uri)
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
                records[sample] = _record(study.record_uri(SEPARATOR.join((candidate.identity, sample))))
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
    study = ParetoSearch.load(study_uri)
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


def _lacking(candidates: Sequence[TriedConfiguration], samples: Sequence[str]) -> list[str]:
    return [
        SEPARATOR.join((candidate.identity, sample))
        for candidate in candidates
        for sample in samples
        if sample not in candidate.measures
    ]
