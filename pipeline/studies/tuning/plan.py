"""What is asked of a tuning study, of which release; frozen and stored as a `TuningStudy`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import get_args

from cluster_logs.log_span import submission_span
from foundation.errors import BadInputError, check_names
from foundation.outside_names import check_cluster_name
from foundation.site import Site
from lucid_models.duration.model import DurationSettings
from lucid_models.releases.lifecycle import load_release_models
from lucid_models.releases.store import ALLOW_SIMULATED
from pipeline.release.current_release import find_current_release
from pipeline.release.release_settings import pinned_settings
from pipeline.replay.job_types import JobTypes
from pipeline.studies.store import digest
from pipeline.studies.tuning.inputs import freeze, read_known_lake, tuning_windows
from pipeline.studies.tuning.space import LUCID, TuningBase, search_space
from pipeline.studies.tuning.study import TuningStudy
from pipeline.studies.tuning.tuned_part import Value, tuned_parts, tuned_policies
from pipeline.training.windows import training_window_end
from pipeline.validation.contenders import learned_until
from simulator.gate.rules import OBJECTIVES


@dataclass(frozen=True)
class TuningSpec:
    """What is asked of a study; the days are counted back from the end of training.

    - `objective`: one of the gate's (`simulator.gate.rules.OBJECTIVES`), lower is better.
    - `round_size`: trials that the optimiser asks for at once. Part of the study: with another size it asks
      for other trials.
    - `search`: values to try in place of a parameter's own; one value fixes it.
    - `job_types`, `seed`: as in the gate; `seed` is the optimiser's too.
    """

    hold_out_days: int = 14
    as_of: datetime | None = None
    search_days: float = 9.0
    validation_days: float = 7.0
    blocks: int = 3
    warm_up_days: float = 1.0
    objective: str = "mean_jct_s"
    round_size: int = 8
    search: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    job_types: JobTypes = "drawn"
    seed: int = 0

    def __post_init__(self) -> None:
        check_names("objective", [self.objective], OBJECTIVES)
        check_names("way to find job types", [self.job_types], get_args(JobTypes))
        if not 1 <= self.round_size <= 200:
            raise BadInputError(f"round_size is {self.round_size!r}.", remedy="Use 1 to 200.")


DEFAULTS = TuningBase()


def plan_study(
    site: Site,
    *,
    spec: TuningSpec | None = None,
    base: TuningBase = DEFAULTS,
    duration: DurationSettings | None = None,
    out_uri: str | None = None,
) -> TuningStudy:
    """Freeze the inputs and store the plan; the same arguments give the same study.

    `base` is what holds now (default: the policy's and the model's own defaults); `duration` says how the
    estimates are learned. The study lies at `out_uri`, by default in the lake under tuning/cluster=C/DIGEST.
    Raises NotFoundError when the lake lacks jobs or nodes, BadInputError when the log is too short.
    """
    check_cluster_name(site.cluster)
    tuning_spec = spec or TuningSpec()
    pinned = pinned_settings(base.settings, base.policy)
    tree = base.packing
    until = training_window_end(site, tuning_spec.hold_out_days, tuning_spec.as_of)
    first, _ = submission_span(site.lake, site.cluster, tuning_spec.as_of)
    windows = tuning_windows(
        first,
        until,
        search_days=tuning_spec.search_days,
        validation_days=tuning_spec.validation_days,
        blocks=tuning_spec.blocks,
        warm_up_days=tuning_spec.warm_up_days,
    )
    site.progress(0, None, "reading the log")
    snapshot = read_known_lake(site, until, parts=base.parts)
    parts = [part for part in tuned_parts() if part.field in base.parts]
    policy = tuned_policies().get(base.policy)
    space = search_space(
        pinned,
        tree,
        nodes=snapshot.node_count,
        chosen=tuning_spec.search,
        parts=base.parts,
        policy=base.policy,
        in_log=policy is not None and policy.tells(snapshot.jobs),
    )
    shared = {
        "known": snapshot.sha256(),
        "windows": windows.to_data(),
        "settings": pinned,
        "packing": asdict(tree),
        "duration": asdict(duration or DurationSettings()),
        "job_types": tuning_spec.job_types,
        "seed": tuning_spec.seed,
        **{part.field: dict(base.parts[part.field]) for part in parts},
        **({"policy": base.policy} if base.policy != LUCID else {}),
    }
    plan = {
        "cluster": site.cluster,
        **shared,
        "inputs_sha256": digest(shared),
        "space": space.to_data(),
        "objective": tuning_spec.objective,
        "round_size": tuning_spec.round_size,
        **{limit.field: limit.limit for limit in (part.limit() for part in parts)},
    }
    folder_uri = f"{site.lake.rstrip('/')}/tuning/cluster={site.cluster}"
    uri, sha256 = TuningStudy.place(plan, out_uri=out_uri, folder_uri=folder_uri)
    remarks = freeze(
        snapshot, windows, f"{uri}/inputs", duration=duration or DurationSettings(), progress=site.progress
    )
    document = {
        "sha256": sha256,
        **plan,
        "hold_out_days": tuning_spec.hold_out_days,
        "as_of": None if tuning_spec.as_of is None else tuning_spec.as_of.isoformat(),
        "base_release": base.release,
        "remarks": list(remarks),
    }
    TuningStudy.write_plan(uri, document)
    return TuningStudy.load(uri)


def current_release(site: Site) -> TuningBase:
    """Return what the release to tune pins: the cluster's champion, else its newest.

    Raises NotFoundError when the cluster has none, BadInputError when it runs no policy that is tuned.
    """
    release = find_current_release(site, purpose="to tune")
    tuned = (LUCID, *tuned_policies())
    if release.policy not in tuned:
        names = [name.title() for name in tuned]
        either = " or ".join(names)
        raise BadInputError(
            f"Release {release.version} of cluster {site.cluster!r} runs {release.policy}, neither "
            f"{' nor '.join(names)}: there is nothing of theirs to tune.",
            remedy=f"Publish a release that runs {either}.",
        )
    settings = {name: value for name, value in release.settings.items() if name != ALLOW_SIMULATED}
    models = load_release_models(tracking_uri=site.registry, cluster=site.cluster, version=release.version)
    return TuningBase(
        settings,
        models.packing.settings,
        release.version,
        {part.field: release.parts[part.field] for part in tuned_parts() if part.field in release.parts},
        release.policy,
        learned_until(models.manifest),
    )


def plan_around(
    site: Site, current: TuningBase, *, spec: TuningSpec, out_uri: str | None = None
) -> TuningStudy:
    """Plan a study of a release's settings; as `plan_study`.

    Raises BadInputError when the release learned from the held-out days: the challenger, which would share
    its models, could not be judged on them.
    """
    until = training_window_end(site, spec.hold_out_days, spec.as_of)
    if current.learned_until is not None and current.learned_until > until:
        raise BadInputError(
            f"Release {current.release} learned until {current.learned_until:%Y-%m-%d %H:%M}, but the "
            f"held-out days begin at {until:%Y-%m-%d %H:%M} UTC: the gate could not judge its models there.",
            remedy="Hold out fewer days, or train a release that stops earlier.",
        )
    return plan_study(site, spec=spec, base=current, out_uri=out_uri)
