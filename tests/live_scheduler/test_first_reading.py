"""A daemon that starts beside a standing queue: what is measured first is as if it had been there."""

import numpy as np

from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.live_settings import LiveSettings


class Alike:
    def __init__(self):
        self.waiting = []

    def join(self, jobs):
        self.waiting += [job["job_id"] for job in jobs]

    def leave(self, job_ids):
        self.waiting = [job_id for job_id in self.waiting if job_id not in set(job_ids)]

    def estimates(self, at_s):
        return np.full(len(self.waiting), 60.0)

    def estimate_now(self, jobs, at_s):
        return [60.0] * len(jobs)


def test_jobs_of_a_standing_queue_are_measured_first_where_their_home_is_full():
    chosen = LiveSettings("test", profiling_partition="prof")
    maker = DecisionMaker(live_policy(chosen), Alike(), chosen, release="r")
    nodes = (LiveNode("n1", 4, 4, True, ("vc1",)), LiveNode("p1", 2, 0, True, ("prof",)))
    running = LiveJob("0", "vc1", "vc1", 4, 0.0, start_time_s=10.0, gpus_on=(("n1", 4),))
    waiting = [LiveJob(str(n), "vc1", "vc1", 1, 20.0 + n) for n in (1, 2, 3)]
    maker.follow(ClusterState(100.0, (running, *waiting), nodes))
    places = maker.decide().by_id
    assert {job_id: place.pool for job_id, place in places.items()} == {"1": "prof", "2": "prof", "3": "prof"}
    assert [places[job_id].starts_now for job_id in ("1", "2", "3")] == [True, True, False]


def test_those_that_find_room_at_home_stay_there():
    chosen = LiveSettings("test", profiling_partition="prof")
    maker = DecisionMaker(live_policy(chosen), Alike(), chosen, release="r")
    nodes = (LiveNode("n1", 4, 2, True, ("vc1",)), LiveNode("p1", 2, 0, True, ("prof",)))
    running = LiveJob("0", "vc1", "vc1", 2, 0.0, start_time_s=10.0, gpus_on=(("n1", 2),))
    waiting = [LiveJob(str(n), "vc1", "vc1", 1, 20.0 + n) for n in (1, 2, 3)]
    maker.follow(ClusterState(100.0, (running, *waiting), nodes))
    pools = {place.job_id: place.pool for place in maker.decide().ranked}
    assert pools == {"1": "vc1", "2": "vc1", "3": "prof"}
