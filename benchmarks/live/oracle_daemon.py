"""The live scheduler as `lucid live slurm` runs it, with true run times in the place of the estimates.

    python -m benchmarks.live.oracle_daemon --settings FILE --durations FILE --tracking-uri URI

The bound that estimates are measured against. `--durations` is a JSON list: the run time of the n-th job that
was submitted to this Slurm, whose id is n.
"""

import argparse
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_scheduler.adapters import adapter_kind
from live_scheduler.assembly import assemble, open_releases, run_until_told
from live_scheduler.settings_file import read_live_settings, state_folder
from pipeline import settings


class TrueDurations:
    """An Estimator (`live_scheduler.deciding.decision_maker`) that knows."""

    def __init__(self, durations_s: Sequence[float]) -> None:
        self._durations_s = durations_s
        self._waiting: dict[str, None] = {}

    @property
    def waiting(self) -> Sequence[str]:
        return list(self._waiting)

    def join(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        self._waiting.update((str(job["job_id"]), None) for job in jobs)

    def leave(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            del self._waiting[job_id]

    def estimates(self, at_s: float) -> NDArray[np.float64]:
        return np.array([self._durations_s[int(job_id) - 1] for job_id in self._waiting])

    def estimate_now(
        self,
        jobs: Sequence[Mapping[str, Any]],
        at_s: float,
    ) -> Sequence[float]:
        return [self._durations_s[int(str(job["job_id"])) - 1] for job in jobs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--durations", type=Path, required=True)
    parser.add_argument("--tracking-uri", required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    durations_s = json.loads(given.durations.read_text())
    chosen = read_live_settings(given.settings)
    state_dir = settings.state_dir()
    folder = state_folder(state_dir, chosen.cluster)
    client = open_releases(given.tracking_uri, chosen, folder, state_dir)
    try:
        daemon = assemble(
            adapter_kind(chosen.adapter).open(chosen, folder),
            client,
            chosen,
            folder,
            estimator_of=lambda _: TrueDurations(durations_s),
        )
        run_until_told(daemon)
    finally:
        client.close()


if __name__ == "__main__":
    main()
