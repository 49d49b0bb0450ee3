"""An operator's session with PCS on a real Slurm: publish it, submit, read when jobs end, see it hold.

Jobs run for seconds, and the release's duration model has learned how long each name runs.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from foundation.errors import LucidError
from live_scheduler.forecast.submission_predictions import (
    SUBMISSION_PREDICTIONS_FILE,
    SubmissionPrediction,
    read_submission_predictions,
)
from live_scheduler.service.asking import ServiceCaller, open_caller
from live_scheduler.service.schema import PredictionErrors, Status
from lucid_models.boosting import BoostingSettings
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.model_format import save_model
from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict, rollback_release
from mlflow import MlflowClient
from tests.fixtures import ReleaseShop, register_small_models
from tests.slurm.conftest import accounted as accounted
from tests.slurm.conftest import running_accounted_slurm as running_accounted_slurm
from tests.slurm.live_cluster import NAME, LiveCluster
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough("Slurm")]

# Seconds by name: most jobs are short, most of the work is in the long ones.
RUNS = {"blink": 3.0, "walk": 5.0, "run": 9.0, "haul": 16.0}
# Classes by GPU-seconds.
PCS = {
    "thresholds_s": [8.0, 19.0, "inf"],
    "weights": [0.375, 0.375, 0.25],
    "efficiency_min": 0.0,
    "efficiency_step": 1.0,
}
# Name and GPUs in the order of submission. The first five fill the 8 GPUs; of the others hardly any overtakes
# one that was told its end before: played by the simulator, none ends more than 1 s late.
STREAM = (
    *("haul:2", "run:2", "run:1", "walk:2", "walk:1"),
    *("walk:1", "blink:1", "blink:1", "haul:1", "run:1", "blink:1", "run:1", "blink:1", "walk:1", "blink:1"),
    *("blink:1", "walk:1", "haul:1", "run:1", "blink:1", "haul:1", "run:1", "run:1", "haul:1", "run:1"),
)
GPUS = 8
# Beside what Slurm itself takes to start and end jobs, which no simulation predicts.
TOLERANCE = 0.25  # of the told time
SLACK_S = 3.0  # Slurm looks at its queue once a second, and tells starts and ends in whole ones


def past_jobs(jobs: int = 400) -> pd.DataFrame:
    """A log in which each name has its own run time."""
    rng = np.random.default_rng(0)
    names = rng.choice(list(RUNS), jobs)
    submit = pd.Timestamp.now("UTC").floor("s") - pd.to_timedelta(np.arange(jobs, 0, -1) * 600.0, unit="s")
    duration = np.array([RUNS[name] for name in names])
    return pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(jobs)],
            "virtual_cluster": "vc1",
            "user": "root",
            "name": names,
            "gpus": rng.choice([1, 2], jobs).astype("int32"),
            "gpu_share": 1.0,
            "submit_time": submit,
            "start_time": submit,
            "end_time": submit + pd.to_timedelta(duration, unit="s"),
            "duration_s": duration,
            "service_s": duration,
            "queuing_delay_s": 0.0,
            "state": "COMPLETED",
            "source_file": "seconds.synthetic",
            "source_row": np.arange(1, jobs + 1),
        }
    )


@pytest.fixture
def known_run_times(shop: ReleaseShop, tmp_path: Path) -> Iterator[int]:
    """A version of the duration model that knows how long these jobs run; gone afterwards."""
    fast = BoostingSettings(bags=2, max_rounds=100, max_bins=32, learning_rate=0.3)
    model = WorkloadEstimateModel(DurationSettings(log_boosting=fast, mean_boosting=fast, pairs=0))
    path = tmp_path / "duration.json"
    save_model(model.fit(past_jobs()).to_data(), path)
    register_small_models(shop.uri, {"duration": [path]})
    client = MlflowClient(shop.uri)
    newest = max(int(found.version) for found in client.search_model_versions("name = 'lucid-duration'"))
    yield newest
    client.delete_model_version("lucid-duration", str(newest))


@pytest.fixture
def cluster(
    accounted: PrivateSlurm, small_model_files: dict[str, list[Path]], tmp_path: Path
) -> Iterator[LiveCluster]:
    settings = 'partitions = ["vc1"]\nadvise_interval_s = 5.0\n'
    found = LiveCluster(accounted, tmp_path, small_model_files, settings, http_port=0)
    try:
        yield found
    finally:
        found.end()


@contextmanager
def asking(cluster: LiveCluster) -> Iterator[ServiceCaller]:
    with open_caller(cluster.state.parent, cluster=NAME) as caller:
        yield caller


def status(cluster: LiveCluster) -> Status:
    with asking(cluster) as caller:
        return caller.status()


def answers(cluster: LiveCluster, job_id: str) -> bool:
    """Whether the daemon has read the job and decided."""
    try:
        with asking(cluster) as caller:
            return caller.explain(job_id).policy == "pcs"
    except LucidError:
        return False


def overall(cluster: LiveCluster) -> list[PredictionErrors]:
    return [each for each in status(cluster).predictions if not each.virtual_cluster]


def told(cluster: LiveCluster) -> dict[str, SubmissionPrediction]:
    """The last word that each job was given; a second one would be a fault."""
    found: dict[str, SubmissionPrediction] = {}
    for prediction in read_submission_predictions(cluster.state / SUBMISSION_PREDICTIONS_FILE):
        assert found.setdefault(prediction.job_id, prediction) == prediction
    return found


def comments(cluster: LiveCluster) -> dict[str, str]:
    lines = (
        cluster.slurm.run("squeue", "-h", "-O", "JobID:20,Comment:250").replace("\u00a0", " ").splitlines()
    )
    return {line.split()[0]: line.partition("told")[2] for line in lines if "told" in line}


def test_pcs_is_published_tells_jobs_when_they_end_keeps_its_word_and_goes_back(
    cluster: LiveCluster, shop: ReleaseShop, known_run_times: int
) -> None:
    before = shop.approved(1)
    publish_release(tracking_uri=shop.uri, cluster="small", version=before)
    daemon = cluster.start(tracking_uri=shop.uri)
    cluster.wait(lambda: "policy lucid" in daemon.said(), "it follows Lucid")
    versions = {"packing": 1, "throughput": 1, "duration": known_run_times}
    pcs = build_release(
        tracking_uri=shop.uri, cluster="small", versions=versions, settings=PCS, policy="pcs"
    ).version
    verdict = {"approved": True, "sentence": "No loss was found.", "objective": {"change_pct": -3.0}}
    record_verdict(tracking_uri=shop.uri, cluster="small", version=pcs, verdict=verdict)
    publish_release(tracking_uri=shop.uri, cluster="small", version=pcs)
    cluster.wait(lambda: "policy pcs" in daemon.said(), "it follows PCS")

    # A stream of jobs, each of which is told when it ends; also across the daemon's death.
    for word in STREAM:
        name, gpus = word.split(":")
        cluster.submit(name, seconds=RUNS[name], gpus=int(gpus))
    last = cluster.submitted[-1]
    cluster.wait(lambda: last in told(cluster), "the last is told")
    said = told(cluster)
    assert list(said) == [job for job in cluster.submitted if job in said], "in the order of submission"
    # Jobs of seconds may be over before anybody has seen them.
    assert len(said) >= len(STREAM) - 3
    daemon.kill()
    cluster.start(tracking_uri=shop.uri)
    cluster.wait(lambda: answers(cluster, last), "the next daemon answers")
    with asking(cluster) as caller:
        answer, account = caller.when(last), caller.explain(last)
    assert told(cluster) == said, "kill -9 neither lost nor changed a word"
    assert answer.told_end_s == said[last].end_s
    assert answer.predicted_end_s is not None
    assert any("under pcs" in line for line in answer.remarks)
    assert account.state == "running" or any("size class 2 of 3" in line for line in account.sentences)
    ends = f"{datetime.fromtimestamp(ceil(said[last].end_s)).astimezone():%Y-%m-%d %H:%M:%S}"
    cluster.wait(lambda: f"ends {ends}" in comments(cluster).get(last, f"ends {ends}"), "it is shown")

    # They hold.
    cluster.assert_each_ran_once()
    cluster.wait(lambda: sum(each.jobs for each in overall(cluster)) == len(said), "all ends are known")
    runs = accounted_runs(cluster)
    late_s = {job: runs[job].end_s - prediction.end_s for job, prediction in said.items()}
    kept = [
        abs(late_s[job])
        <= TOLERANCE * prediction.jct_s + SLACK_S + 2.0 * lost_s(runs.values(), runs[job].start_s)
        for job, prediction in said.items()
    ]
    assert sum(kept) >= 0.85 * len(kept), [(job, runs[job], prediction) for job, prediction in said.items()]
    (group,) = overall(cluster)
    assert (group.policy, group.release_version) == ("pcs", pcs)
    assert group.by_p90 > 0

    # And back.
    rollback_release(tracking_uri=shop.uri, cluster="small")
    cluster.wait(lambda: status(cluster).policy == "lucid", "it follows Lucid again")
    assert status(cluster).release.version == before


@dataclass(frozen=True)
class Run:
    gpus: int
    start_s: float
    end_s: float


def accounted_runs(cluster: LiveCluster) -> dict[str, Run]:
    words = ["-a", "-X", "-P", "-n", f"--jobs={','.join(cluster.submitted)}", "-o", "JobIDRaw,Start,End"]
    rows = [line.split("|") for line in cluster.slurm.run("sacct", *words).splitlines()]
    gpus = {job: int(word.partition(":")[2]) for job, word in zip(cluster.submitted, STREAM, strict=True)}
    unix_s = {text: datetime.fromisoformat(text).timestamp() for _, *times in rows for text in times}
    return {job: Run(gpus[job], unix_s[start], unix_s[end]) for job, start, end in rows}


def lost_s(runs: Collection[Run], until_s: float) -> float:
    """For how long each GPU on average was free until a job started that waited for one: what Slurm took to
    end and start jobs before it.
    """
    since_s = min(run.start_s for run in runs)
    used = sum(run.gpus * max(0.0, min(run.end_s, until_s) - run.start_s) for run in runs)
    return until_s - since_s - used / GPUS
