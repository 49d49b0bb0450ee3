"""What is known of a live job's needs, as a policy reads it: which jobs may share GPUs.

A job's needs are known from measurements of its job type (`profile_workloads`), if its user names one
(`job_type=ResNet50/ImageNet/64/1` in the comment, or as the job's name), else from what earlier jobs of the
same template needed while they ran (`lucid_models.known_profiles`). The release's packing model says how it
shares. A job of unknown needs is never packed.
"""

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cluster_logs.metrics.job_metrics import PROFILE
from live_scheduler.cluster_state import LiveJob
from lucid_models.known_profiles import LatestProfiles
from lucid_models.scoring import PackingScorer
from simulator.workload.job import JobProfile

logger = logging.getLogger("lucid.live")

REFRESH_S = 3_600.0
_STATED = re.compile(r"(?:^|\s)job_type=(\S+)")

Figures = tuple[float, float, float]  # GPU utilisation (%), memory utilisation (%), memory (MiB)


@dataclass(frozen=True)
class MeasuredNeeds:
    """What was measured: the figures of job types, and of templates."""

    by_job_type: Mapping[str, Figures] = field(default_factory=dict)
    by_template: LatestProfiles | None = None


class KnownNeeds:
    """Looks up jobs' needs (a `live_pools.ProfileSource`); measurements are read anew hourly."""

    def __init__(
        self,
        read: Callable[[], MeasuredNeeds],
        packing: Callable[[], PackingScorer | None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`packing` is the packing model of the release in use; None without a release. Reads at once.

        What cannot be read is not known; it is tried again as at any other time.
        """
        self._read, self._packing, self._monotonic = read, packing, monotonic
        self._scores: dict[tuple[Figures, bool], int] = {}
        self._scored_by: PackingScorer | None = None
        self._reader: threading.Thread | None = None
        self._read_at = monotonic()
        self._measurements = MeasuredNeeds()
        self._read_again()

    def __call__(self, job: LiveJob) -> JobProfile | None:
        """Return what is known of a job's needs, None unless all of it is known."""
        self._keep_fresh()
        measurements = self._measurements
        job_type = self._job_type(job)
        figures = measurements.by_job_type.get(job_type) if job_type is not None else None
        if figures is None:
            needs = (
                measurements.by_template.of(job_type, job.user, job.name) if measurements.by_template else {}
            )
            if len(needs) < len(PROFILE):
                return None
            util_pct, mem_util_pct, mem_mib = (needs[name] for name in PROFILE)
            figures = util_pct, mem_util_pct, mem_mib
        if not all(map(math.isfinite, figures)):
            return None
        amp = job_type is not None and job_type.endswith("/1")
        return JobProfile(*figures, amp=amp, job_type=job_type, sharing_score=self._score(figures, amp))

    def _job_type(self, job: LiveJob) -> str | None:
        if job.job_type:
            return job.job_type
        if stated := _STATED.search(job.comment):
            return stated[1]
        return job.name if job.name in self._measurements.by_job_type else None

    def _score(self, figures: Figures, amp: bool) -> int | None:
        packing = self._packing()
        if packing is None:
            return None
        if packing is not self._scored_by:
            self._scores, self._scored_by = {}, packing
        score = self._scores.get((figures, amp))
        if score is None:
            columns = ([value] for value in (*figures, float(amp)))
            score = self._scores[figures, amp] = int(packing.predict(*columns)[0])
        return score

    def _keep_fresh(self) -> None:
        if self._monotonic() - self._read_at < REFRESH_S:
            return
        self._read_at = self._monotonic()
        if self._reader is None or not self._reader.is_alive():
            self._reader = threading.Thread(target=self._read_again, name="measurements", daemon=True)
            self._reader.start()

    def _read_again(self) -> None:
        try:
            self._measurements = self._read()
        except Exception as error:  # what was known stays known
            logger.warning("what jobs need could not be read: %s", error)
