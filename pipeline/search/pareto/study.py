"""A search as files that any worker may read and add to, as tuning keeps its studies.

    STUDY/study.json              what is preferred, how it is searched
    STUDY/inputs/                 the collected workload (pipeline/search/pareto/inputs.py)
    STUDY/rounds/N.json           the candidates that round N asked for
    STUDY/evaluations/ID-S.json   what candidate ID did on sample S, written in one move when it is done
    STUDY/front.json, front.html  what is presented (pipeline/search/pareto/report.py)

pipeline/search/pareto/rounds.py fills rounds/ and evaluations/.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foundation.errors import BadInputError, NotFoundError
from pipeline.search.pareto.inputs import Collected, Scaling, write_collected
from pipeline.search.tuning.files import read_json, write_json
from simulator.elastic.pareto.objectives import Objective, preference_of
from simulator.elastic.pareto.samples import SampleSpec
from simulator.elastic.pareto.size_classes import SearchBounds

FORMAT_VERSION = 1
STUDY_FILE = "study.json"
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
    - `scaling`, `whole_gpus`: see `pipeline.search.pareto.inputs`.
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
class Study:
    """A planned search. `inputs_sha256` names what a candidate's figures depend on."""

    uri: str
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
        """Where the workload is."""
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
) -> Study:
    """Store the workload and the plan; the same arguments give the same study.

    It lies at `out_uri`, by default below `folder_uri` by its digest. The same search with more `evaluations`
    goes on where it stopped. `name` is the cluster's or the log's; `about` is said of where the workload
    comes from. Raises BadInputError when another search lies there.
    """
    sampling = SampleSpec(jobs=spec.jobs_per_sample, seed=spec.seed)
    shared = {
        "workload": hashlib.sha256(collected.to_bytes()).hexdigest(),
        "sampling": {"jobs": sampling.jobs, "ways": list(sampling.ways), "seed": sampling.seed},
        "version": EVALUATION_VERSION,
    }
    plan = {
        **shared,
        "inputs_sha256": _digest(shared),
        "name": name,
        "preference": [str(objective) for objective in preference_of(tuple(spec.preference))],
        "samples": spec.samples,
        "held_out_samples": spec.held_out_samples,
        "round_size": spec.round_size,
        "seed": spec.seed,
        "bounds": SearchBounds.of(collected.sizes_s, rigid=collected.all_rigid).to_data(),
    }
    sha256 = _digest(plan)
    uri = (out_uri or f"{folder_uri.rstrip('/')}/{sha256[:12]}").rstrip("/")
    found = read_json(f"{uri}/{STUDY_FILE}")
    if found is not None and found.get("sha256") != sha256:
        raise BadInputError(
            f"{uri} holds another search ({str(found.get('sha256'))[:12]}): its log, preference, samples or "
            "seed differ.",
            remedy="Give another folder.",
        )
    write_collected(collected, f"{uri}/inputs")
    write_json(
        f"{uri}/{STUDY_FILE}",
        {
            "format_version": FORMAT_VERSION,
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


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, allow_nan=False).encode()).hexdigest()


def load_study(uri: str) -> Study:
    """Read a stored search. Raises NotFoundError when there is none, BadInputError for another format."""
    uri = uri.rstrip("/")
    document = read_json(f"{uri}/{STUDY_FILE}")
    if document is None:
        raise NotFoundError(
            f"There is no Pareto search at {uri}.", remedy="Begin one: `lucid pareto search`."
        )
    if document["format_version"] != FORMAT_VERSION:
        raise BadInputError(
            f"The search at {uri} has format {document['format_version']}, not {FORMAT_VERSION}.",
            remedy="Search again in a new folder.",
        )
    sampling = document["sampling"]
    return Study(
        uri=uri,
        sha256=document["sha256"],
        inputs_sha256=document["inputs_sha256"],
        name=document["name"],
        objectives=preference_of(tuple(document["preference"])),
        evaluations=document["evaluations"],
        sampling=SampleSpec(sampling["jobs"], tuple(sampling["ways"]), sampling["seed"]),
        samples=document["samples"],
        held_out_samples=document["held_out_samples"],
        round_size=document["round_size"],
        seed=document["seed"],
        bounds=SearchBounds.from_data(document["bounds"]),
        gpus=document["gpus"],
        whole_gpus=document["whole_gpus"],
        jobs=document["jobs"],
        about=document["about"],
        remarks=tuple(document["remarks"]),
    )
