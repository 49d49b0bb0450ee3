"""On which servers workers go."""

from parts.lending.lyra import Lyra, LyraSettings
from parts.lending.workers.draft import Draft, DraftedJob
from parts.lending.workers.server_pools import ServerPool
from parts.lending.workers.worker_placement import PlacementPlan, WorkerKind, whole_units
from simulator.cluster.placement import FreeGpus
from simulator.job_view import JobView
from simulator.snapshot import NodePool
from simulator.workload.job import Job
from simulator.workload.workers import Workers

TRAINING, ON_LOAN = ServerPool.TRAINING, ServerPool.ON_LOAN


def on_loan() -> PlacementPlan:
    """Servers 1 to 4 on loan: with flexible workers, empty, with both kinds, with base workers."""
    free = FreeGpus(5, 8)
    free.take(((0, 8), (3, 6), (4, 2)))
    plan = PlacementPlan(free, loaned=0b11110, with_base=0b11000)
    assert plan.take(1, WorkerKind.FLEXIBLE, 4)
    return plan


def beside_inference(own_servers: int, lent_servers: int, gpus: int) -> NodePool:
    """A pool with servers of its own, and behind them those that it has on loan."""
    pool = NodePool("training", FreeGpus(own_servers, gpus))
    lender = NodePool("inference", FreeGpus(lent_servers, gpus))
    for server in range(lent_servers):
        pool.borrow(lender, server)
    return pool


def view(job_id: str, duration_s: float, workers: Workers) -> JobView:
    job = Job(job_id, "training", None, workers.gpus, 0.0, duration_s, workers=workers)
    return JobView(job, index=len(job_id))


def test_the_kinds_of_workers_keep_apart_on_servers_on_loan() -> None:
    assert on_loan().place_gang(ON_LOAN, [2] * 9) == (3, 4, 4, 4, 2, 2, 2, 2, 1)
    assert on_loan().place_flexible(ON_LOAN, 2, 20) == (1, 1, 2, 2, 2, 2, 3, 4, 4, 4)


def test_a_gang_that_does_not_fit_leaves_nothing() -> None:
    plan = on_loan()
    assert plan.place_gang(ON_LOAN, [4] * 5) is None
    assert plan.free_gpus(ON_LOAN) == 20
    assert plan.place_flexible(ON_LOAN, 4, 1) == (1,)  # still one of flexible workers


def test_wide_workers_go_first_and_gangs_try_their_other_pool() -> None:
    pool = beside_inference(own_servers=2, lent_servers=1, gpus=5)
    policy = Lyra(LyraSettings(scaling=False))
    for each in (view("narrow", 1.0, Workers(2, 1, 1, loanable=True)), view("wide", 9.0, Workers(4, 2, 2))):
        pool.queue.add(policy.priority(each), each)
    draft = Draft(pool, lender="inference", unit=2, scaling=False)
    policy.start_jobs(draft)
    # Wide workers leave a GPU on either own server: too few there for the shorter job, though enough in all.
    assert {job.view.job.job_id: (job.pool, job.placement()) for job in draft.starting} == {
        "wide": (TRAINING, ((0, 4), (1, 4))),
        "narrow": (ON_LOAN, ((2, 4),)),
    }


def test_less_than_a_whole_loaned_worker_is_dropped() -> None:
    pool = beside_inference(own_servers=1, lent_servers=2, gpus=8)
    pool.free.take(((1, 5),))
    draft = Draft(pool, lender="inference", unit=3)
    job = DraftedJob(view("a", 1.0, Workers(2, 1, 3, loanable=True)), ON_LOAN, {})
    draft.scale_out({job: 2})
    assert job.flexible_part() == ((2, 6),)
    assert (draft.plan.free_on(1), draft.plan.free_on(2)) == (3, 2)
    assert whole_units({7: 1, 5: 2, 6: 2}, 3) == {6: 2, 7: 1}
