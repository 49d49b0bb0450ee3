"""What is asked of a Pareto search, of which jobs; frozen and stored as a `ParetoSearch`."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foundation.errors import BadInputError
from foundation.outside_names import check_cluster_name
from foundation.site import Site
from foundation.storage import write_bytes
from parts.elastic.pareto.inputs import (
    INPUTS_FILE,
    Collected,
    Scaling,
    collect_from_lake,
    collect_from_log,
)
from parts.elastic.pareto.objectives import preference_of
from parts.elastic.pareto.samples import SampleSpec
from parts.elastic.pareto.size_classes import SearchBounds
from parts.elastic.pareto.study import ParetoSearch
from pipeline.replay.log_file import LogFile
from pipeline.studies.store import digest
from pipeline.training.windows import read_as_of, training_window_end

# Raise it when the same candidate and sample give other figures.
EVALUATION_VERSION = 1
DEFAULT_PREFERENCE = ("JCT:avg", "Pred_err:avg")
HOLD_OUT_DAYS = 14


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
    return ParetoSearch.load(uri)


def plan_search(
    site: Site,
    *,
    gpus: int | None = None,
    log: LogFile | None = None,
    out_uri: str | None = None,
    folder_uri: str | None = None,
    asked: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Freeze the workload of a cluster in the lake, or of a log file, and store the plan.

    `asked` holds fields of `SearchSpec` (the preference also as text, `JCT:avg Pred_err:p99`); for the lake
    `hold_out_days` (its last days are left to the gate), `as_of` and `virtual_cluster`; for a log
    `speed_ups_path` and `time_zone`. None is left out. The study lies at `out_uri`, by default below
    `folder_uri` (for the lake: pareto/cluster=C in it) by its digest.
    Returns `study_uri`, `rounds` (how many there are) and `remarks`.
    """
    values = {name: value for name, value in (asked or {}).items() if value not in (None, "")}
    lake_only = {name: values.pop(name, None) for name in ("hold_out_days", "as_of", "virtual_cluster")}
    log_only = {name: values.pop(name) for name in ("speed_ups_path", "time_zone") if name in values}
    if isinstance(values.get("preference"), str):
        values["preference"] = tuple(values["preference"].replace(",", " ").split())
    spec = SearchSpec(**values)
    site.progress(0, None, "reading the log")
    common: dict[str, Any] = {"gpus": gpus, "scaling": spec.scaling, "whole": spec.whole_gpus}
    if log is not None and not site.cluster:
        if not log.source_format or gpus is None or (out_uri or folder_uri) is None:
            raise BadInputError("A log file needs its --format, --gpus N and a folder for the search.")
        jobs_path = Path(log.path)
        collected = collect_from_log(
            jobs_path, log.source_format, progress=site.progress, **common, **log_only
        )
        name, about = jobs_path.name.split(".")[0], {"log": jobs_path.name}
    elif not site.cluster or not site.lake or log is not None:
        raise BadInputError(
            "It is not clear which jobs are to be sampled.",
            remedy="Give either a log file (--jobs FILE --format F) or the lake's --cluster NAME.",
        )
    else:
        check_cluster_name(site.cluster)
        days, part = lake_only["hold_out_days"], lake_only["virtual_cluster"]
        until = training_window_end(
            site, HOLD_OUT_DAYS if days is None else int(days), read_as_of(lake_only["as_of"])
        )
        collected = collect_from_lake(site, until=until, virtual_cluster=part, **common)
        name, folder_uri = site.cluster, f"{site.lake.rstrip('/')}/pareto/cluster={site.cluster}"
        about = {"until": until.isoformat(), "virtual_cluster": part or "all, as one pool"}
    study = plan_study(collected, spec, out_uri=out_uri, folder_uri=folder_uri or "", name=name, about=about)
    return {"study_uri": study.uri, "rounds": study.rounds, "remarks": list(study.remarks)}
