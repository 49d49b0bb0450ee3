"""One decision on a cluster that is pushed in, by a release as it was trained: nothing is remembered."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.cluster_state import ClusterState
from live_scheduler.deciding.decision import Decision
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy, settings_in_force
from live_scheduler.live_settings import LiveSettings
from live_scheduler.release import LiveRelease, Release
from lucid_models.duration.scorer import DurationScorer


def decide_once(cluster: ClusterState, release: Release, settings: LiveSettings) -> Decision:
    """Order a cluster. Raises ServiceUnavailableError without a release, BadInputError for its estimates."""
    if not isinstance(release, LiveRelease):
        raise ServiceUnavailableError(
            f"There is no release to decide by: {release.why}",
            remedy="Publish one (`lucid release publish`), or keep the order that you have.",
        )
    in_force = settings_in_force(settings, release.manifest)
    maker = DecisionMaker(
        live_policy(in_force),
        _TrainedEstimator(release.scorers.duration),
        in_force,
        release=release.describe(),
        release_version=release.version,
    )
    maker.follow(cluster)
    return maker.decide()


class _TrainedEstimator:
    """Estimates by the statistics that a release was trained to; they are only read."""

    def __init__(self, scorer: DurationScorer) -> None:
        self._scorer = scorer
        self._facts: list[Mapping[str, Any]] = []

    @property
    def waiting(self) -> Sequence[str]:
        """The ids of the jobs that are estimated."""
        return [str(facts["job_id"]) for facts in self._facts]

    def join(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Estimate these jobs."""
        self._facts += jobs

    def leave(self, job_ids: Iterable[str]) -> None:
        """Estimate these jobs no longer."""
        gone = set(job_ids)
        self._facts = [facts for facts in self._facts if facts["job_id"] not in gone]

    def estimates(self, at_s: float) -> NDArray[np.float64]:
        """P50 run times (s), shape (jobs,); raises BadInputError for one that is not sound."""
        return np.array(self.estimate_now(self._facts, at_s))

    def estimate_now(self, jobs: Sequence[Mapping[str, Any]], at_s: float) -> list[float]:
        """P50 run times (s) of any jobs; raises likewise."""
        if not jobs:
            return []
        estimates = self._scorer.predict(jobs, at_s)
        if not (np.isfinite(estimates) & (estimates > 0)).all():
            raise BadInputError("The release has no sound estimate for some of these jobs.")
        return [float(value) for value in estimates]
