"""A Pareto search: what is preferred, how it is searched; stored as pipeline/studies/experiment.py says.

STUDY/study.json              the plan
STUDY/inputs/                 the collected workload (parts/elastic/pareto/inputs.py)
STUDY/rounds/N.json           the candidates that round N asked for
STUDY/evaluations/ID-S.json   what candidate ID did on sample S
STUDY/front.json, front.html  what is presented (parts/elastic/pareto/report.py)
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foundation.errors import BadInputError
from foundation.storage import write_bytes
from parts.elastic.pareto.inputs import INPUTS_FILE, Collected, Scaling
from parts.elastic.pareto.objectives import Objective, preference_of
from parts.elastic.pareto.samples import SampleSpec
from parts.elastic.pareto.size_classes import SearchBounds
from pipeline.studies.experiment import Experiment
from pipeline.studies.store import digest

# Raise it when the same candidate and sample give other figures.
EVALUATION_VERSION = 1
DEFAULT_PREFERENCE = ("JCT:avg", "Pred_err:avg")


@dataclass(frozen=True)
class SearchSpec:
    """What is asked of a search.

    - `preference`: objectives, all to be small.
    - `evaluations`: different configurations to try, in whole rounds of `round_size`. The size of a round is
      part of the study: with another one the optimiser asks for other candidates.
    - `jobs_per_sample`, `samples`: arrivals in a sample; samples that a configuration near the front is tried
      on. `held_out_samples`: fresh ones, which the found front is presented on.
    - `scaling`, `whole_gpus`: see `parts.elastic.pareto.inputs`.
    """

    preference: Sequence[str] = DEFAULT_PREFERENCE
    evaluations: int = 1_110
    jobs_per_sample: int = 2_000
    samples: int = 6
    held_out_samples: int = 6
    round_size: int = 37
    seed: int = 0
    scaling: Scaling = "rigid"
    whole_gpus: bool | None = None

    def __post_init__(self) -> None:
        preference_of(tuple(self.preference))
        for name, least in (("evaluations", 1), ("samples", 1), ("held_out_samples", 1), ("round_size", 1)):
            if getattr(self, name) < least:
                raise BadInputError(f"{name} is {getattr(self, name)}.", remedy=f"Use {least} or more.")


@dataclass(frozen=True)
class ParetoSearch(Experiment):
    """A planned search. `inputs_sha256` names what a candidate's figures depend on."""

    kind = "search"
    unit = "candidate"
    records = "evaluations"
    items_argument = "evaluations"
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


def plan_study(
    collected: Collected,
    spec: SearchSpec,
    *,
    out_uri: str | None = None,
    folder_uri: str = "",
    name: str,
    about: Mapping[str, Any] | None = None,
) -> ParetoSearch:
    """Store the workload and the plan; the same arguments give the same study.

    It lies at `out_uri`, by default below `folder_uri` by its digest. The same search with more `evaluations`
    goes on where it stopped. `name` is the cluster's or the log's; `about` is said of where the workload
    comes from. Raises BadInputError when another search lies there.
    """
    sampling = SampleSpec(jobs=spec.jobs_per_sample, seed=spec.seed)
    workload = collected.to_bytes()
    shared = {
        "workload": hashlib.sha256(workload).hexdigest(),
        "sampling": {"jobs": sampling.jobs, "ways": list(sampling.ways), "seed": sampling.seed},
        "version": EVALUATION_VERSION,
    }
    plan = {
        **shared,
        "inputs_sha256": digest(shared),
        "name": name,
        "preference": [str(objective) for objective in preference_of(tuple(spec.preference))],
        "samples": spec.samples,
        "held_out_samples": spec.held_out_samples,
        "round_size": spec.round_size,
        "seed": spec.seed,
        "bounds": SearchBounds.of(collected.sizes_s, rigid=collected.all_rigid).to_data(),
    }
    uri, sha256 = ParetoSearch.place(plan, out_uri=out_uri, folder_uri=folder_uri)
    write_bytes(f"{uri}/inputs/{INPUTS_FILE}", workload)
    ParetoSearch.write_plan(
        uri,
        {
            "sha256": sha256,
            **plan,
            "evaluations": spec.evaluations,
            "gpus": collected.gpus,
            "whole_gpus": collected.whole,
            "jobs": len(collected.jobs),
            "about": dict(about or {}),
            "remarks": list(collected.remarks),
        },
    )
    return load_study(uri)


def load_study(uri: str) -> ParetoSearch:
    """Read a stored search. Raises NotFoundError when there is none, BadInputError for another format."""
    return ParetoSearch.load(
        uri,
        lambda plan: {
            "objectives": preference_of(tuple(plan["preference"])),
            "sampling": SampleSpec(**{**plan["sampling"], "ways": tuple(plan["sampling"]["ways"])}),
            "bounds": SearchBounds.from_data(plan["bounds"]),
        },
    )
