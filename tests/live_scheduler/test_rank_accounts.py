"""Why a job stands where it stands, in the words of the policy that ordered the queue."""

import numpy as np

from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.live_view import LiveView
from live_scheduler.release import ClientStatus
from live_scheduler.service.job_account import explanation_of

NOW = 1_700_000_000.0
NODES = (LiveNode("n1", 8, 8, True, ("vc1",)),)
STATUS = ClientStatus("champion", "following", "r", 1, None, None, None, None, None, None)


class Told:
    """Estimates that a test gives, by job."""

    def __init__(self, by_job):
        self.by_job, self.waiting = by_job, []

    def join(self, jobs):
        self.waiting += [job["job_id"] for job in jobs]

    def leave(self, job_ids):
        self.waiting = [job_id for job_id in self.waiting if job_id not in set(job_ids)]

    def estimates(self, at_s):
        return np.array([self.by_job[job_id] for job_id in self.waiting], dtype=float)

    def estimate_now(self, jobs, at_s):
        return [self.by_job[job["job_id"]] for job in jobs]


def job(number, gpus, ago_s, **more):
    return LiveJob(str(number), "vc1", "vc1", gpus, NOW - ago_s, user="ada", **more)


def decided(jobs, estimates, policy, chosen):
    settings = LiveSettings("mini", Mode.CONTROL, policy=policy, policy_settings=chosen)
    maker = DecisionMaker(live_policy(settings), Told(estimates), settings, release="release 3")
    cluster = ClusterState(NOW, tuple(jobs), NODES)
    maker.follow(cluster)
    return LiveView(NOW, NOW, settings, STATUS, cluster, maker.decide())


def said(view, job_id):
    return explanation_of(view, job_id).sentences


def test_an_aged_order_is_told_as_what_the_work_counts_for():
    queue = [job(1, 8, 900, start_time_s=NOW - 800, gpus_on=(("n1", 8),)), job(2, 2, 3_600), job(3, 1, 60)]
    view = decided(queue, {"1": 5_000.0, "2": 1_800.0, "3": 1_800.0}, "lucid", {"ageing_s": 3_600.0})
    (line,) = (line for line in said(view, "2") if "ageing_s" in line and "It is served" in line)
    assert "2 GPUs x 30 min = 60 GPU-min, which count as 22.1 GPU-min after 60 min (ageing_s 60 min)" in line
    assert not any("ranks it (" in each for each in said(view, "2"))
    plain = decided(queue, {"1": 5_000.0, "2": 1_800.0, "3": 1_800.0}, "lucid", {})
    assert any("serves the fewest GPU-seconds first" in each for each in said(plain, "2"))
