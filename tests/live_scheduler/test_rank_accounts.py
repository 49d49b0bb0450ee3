"""Why a job stands where it stands, in the words of the policy that ordered the queue."""

import numpy as np

from live_scheduler.client_status import ClientStatus
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.live_view import LiveView
from live_scheduler.service.job_account import explanation_of

NOW = 1_700_000_000.0
NODES = (LiveNode("n1", 8, 8, True, ("vc1",)),)
PCS = {
    "thresholds_s": [1_000.0, 100_000.0, "inf"],
    "weights": [0.5, 0.25, 0.25],
    "efficiency_min": 0.0,
    "efficiency_step": 1.0,
}
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


def test_pcs_says_which_class_which_share_and_who_is_ahead_and_why():
    queue = [
        job(1, 8, 900, start_time_s=NOW - 800, gpus_on=(("n1", 8),)),  # of the second class
        job(2, 4, 700),  # of the second class too, and first come
        job(3, 2, 600),
        job(4, 1, 500),  # small ones came later
        job(5, 1, 400),
    ]
    view = decided(queue, {"1": 5_000.0, "2": 4_000.0, "3": 3_000.0, "4": 600.0, "5": 500.0}, "pcs", PCS)
    # The first class holds nothing; each that is served there is more of its share of four GPUs.
    assert view.decision.order_of("vc1") == ["4", "5", "2", "3"]
    text = said(view, "3")
    assert (
        "It is in size class 2 of 3 (up to 27.8 GPU-h; it is expected to take 2 GPUs x 50 min = 1.67 GPU-h), "
        "which owns 25.0% of the GPUs and is served first come, first served."
    ) in text
    assert any(
        line.startswith("Its class holds 12 GPUs, those asked for before it included") for line in text
    )
    assert (
        "Ahead of it: 1 of its own class, submitted before it; 2 of class 1, which has less of its share of "
        "50.0% at their turn."
    ) in text
    assert not any("ranks it (" in line for line in text)
    assert "Ahead" not in " ".join(line for line in said(view, "4") if line.startswith("Ahead of it"))


def test_whose_turn_is_next_goes_by_shares_and_is_first_come_within_a_class():
    """Greedily: the class that holds least of its share is served next."""
    queue = [job(number, 1 + number % 3, 1_000 - number) for number in range(2, 14)]
    estimates = {one.job_id: [100.0, 20_000.0, 500_000.0][int(one.job_id) % 3] for one in queue}
    running = job(1, 8, 2_000, start_time_s=NOW - 10, gpus_on=(("n1", 8),))
    view = decided([running, *queue], {**estimates, "1": 10_000.0}, "pcs", PCS)
    held, waiting = [0.0, 8.0, 0.0], [[], [], []]
    for one in queue:
        size_s = one.gpus * estimates[one.job_id]
        waiting[0 if size_s <= 1_000 else 1 if size_s <= 100_000 else 2].append(one)
    expected = []
    while any(waiting):
        loads = [
            (held[at] / PCS["weights"][at], int(waiting[at][0].job_id), at) for at in range(3) if waiting[at]
        ]
        at = min(loads)[2]
        one = waiting[at].pop(0)
        held[at] += one.gpus
        expected.append(one.job_id)
    assert view.decision.order_of("vc1") == expected


def test_an_aged_order_is_told_as_what_the_work_counts_for():
    queue = [job(1, 8, 900, start_time_s=NOW - 800, gpus_on=(("n1", 8),)), job(2, 2, 3_600), job(3, 1, 60)]
    view = decided(queue, {"1": 5_000.0, "2": 1_800.0, "3": 1_800.0}, "lucid", {"ageing_s": 3_600.0})
    (line,) = (line for line in said(view, "2") if "ageing_s" in line and "It is served" in line)
    assert "2 GPUs x 30 min = 60 GPU-min, which count as 22.1 GPU-min after 60 min (ageing_s 60 min)" in line
    assert not any("ranks it (" in each for each in said(view, "2"))
    plain = decided(queue, {"1": 5_000.0, "2": 1_800.0, "3": 1_800.0}, "lucid", {})
    assert any("serves the fewest GPU-seconds first" in each for each in said(plain, "2"))
