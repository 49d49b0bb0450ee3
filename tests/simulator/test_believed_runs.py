"""What is believed of running jobs is kept from one decision to the next, and is what a fresh look says."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.placement import FreeGpus
from simulator.job_view import JobView, RunState
from simulator.mechanisms.believed_runs import BelievedRuns
from simulator.snapshot import NodePool
from simulator.workload.job import Job

NODES, SIZE = 4, 8


def started(pool, index, now_s, gpus, estimate_s, partner=None):
    job = JobView(Job(f"j{index}", "vc", "user", gpus, now_s, 1e6, float(estimate_s)), index)
    job.state, job.pool, job.start_time_s, job.run_since_s = RunState.RUNNING, "vc", now_s, now_s
    pool.running[job] = None
    if partner is None:
        job.placement = pool.free.place(gpus)
    else:
        job.placement, job.partner, partner.partner = partner.placement, partner, job
    return job


def ended(pool, job, now_s):
    del pool.running[job]
    job.state, partner = RunState.COMPLETED, job.partner
    if partner is None:
        pool.free.give(job.placement)
    else:
        partner.attained_s += now_s - partner.run_since_s
        partner.run_since_s, partner.partner = now_s, None


def believed_end_s(job, now_s):
    """An estimate is doubled until it is not outlived; a pair lasts as long as the longer one."""
    ends_s = []
    for each in (job, job.partner or job):
        attained_s, estimate_s = each.attained_at(now_s), each.estimate_s
        while estimate_s <= attained_s:
            estimate_s *= 2
        ends_s.append(now_s + estimate_s - attained_s)
    return max(ends_s)


def plain(pool, now_s):
    """All that runs, the job that was submitted first of each pair, by believed end."""
    ends = [
        (believed_end_s(job, now_s), job.index)
        for job in pool.running
        if job.partner is None or job.index < job.partner.index
    ]
    return sorted(ends)


events = st.tuples(
    st.integers(0, 40),  # s since the last one
    st.sampled_from(("start", "join", "end", "reading")),
    st.integers(0, 7),  # which job
    st.integers(1, 12),  # GPUs
    st.integers(1, 90),  # estimate
)


@given(st.lists(events, max_size=40))
def test_what_is_kept_is_what_a_look_at_all_that_runs_would_say(happening):
    pool, runs = NodePool("vc", FreeGpus(NODES, SIZE)), BelievedRuns()
    now_s = 0.0
    for index, (later_s, kind, which, gpus, estimate_s) in enumerate(happening):
        now_s += later_s
        alone = [job for job in pool.running if job.partner is None]
        if kind == "start" and pool.free.find(gpus) is not None:
            started(pool, index, now_s, gpus, estimate_s)
        elif kind == "join" and alone:
            partner = alone[which % len(alone)]
            started(pool, index, now_s, partner.gpus, estimate_s, partner)
        elif kind == "end" and pool.running:
            ended(pool, list(pool.running)[which % len(pool.running)], now_s)
        elif kind == "reading":  # a live scheduler hands over another dict of what runs
            pool.running = dict(pool.running)
            continue
        else:
            continue
        runs.look(pool, now_s)
        assert [(run.key[0], run.job.index) for run in runs.ended_by(1e9)] == plain(pool, now_s)
        head = JobView(Job("head", "vc", "user", NODES * SIZE, now_s, 1.0, 1.0), 10_000)
        if pool.running:
            reservation = runs.reserve(head, pool.plan(), [])
            assert reservation.shadow_s == plain(pool, now_s)[-1][0]
            assert runs.reserve(head, pool.plan(), []) is reservation
