"""What is said of servers on loan: which to lend and to take back, asked and answered. Part of `schema`."""

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, field_validator

from live_scheduler.service.pushed_messages import Count, Gpus, Message, Name, Pushed, Seconds, Time, once

MAX_SERVERS = 2_000
MAX_JOBS_OF_A_SERVER = 1_000
Share = Annotated[float, Field(ge=0, le=1)]
GpusByJob = Annotated[dict[Name, Gpus], Field(max_length=MAX_JOBS_OF_A_SERVER)]


# -- the question


class LoanRules(Pushed):
    """Rules in the place of those of the release; what is absent stays as the release has it.

    `headroom` is the share of servers that is never lent, `lend` "capacity" or "demand", `reclaim` the rule
    that chooses servers to take back, `exact_limit_s` how long its solver may take. `least_kept` servers stay
    with inference, and `most_lent` are on loan at most.
    """

    headroom: Share | None = None
    lend: Name | None = None
    hysteresis_servers: Count | None = None
    hold_s: Seconds | None = None
    reclaim: Name | None = None
    exact_limit_s: Annotated[float, Field(ge=0, le=5)] | None = None
    seed: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    least_kept: Count | None = None
    most_lent: Count | None = None


class LoanServer(Pushed):
    """An inference server, with inference or on loan.

    `base` and `flexible` are the GPUs there of training jobs' workers, by job: a job ends its run when base
    workers go, and runs on with fewer when flexible ones do. `busy`: it serves, so it cannot be lent now.
    `away`: it is down or drained.
    """

    name: Name
    gpus: Gpus
    on_loan: bool = False
    base: GpusByJob = Field(default_factory=dict)
    flexible: GpusByJob = Field(default_factory=dict)
    busy: bool = False
    away: bool = False


class LoanQuery(Pushed):
    """Asks which servers to lend and which to take back.

    Inference uses a share `usage` of its servers; `recent_usage` are its finished bins of five minutes,
    oldest first, the last of which began at `last_bin_start_s`: the release's forecast is made of them, and
    counts where it is higher. `forecast` is the asker's own, and `needed` are servers: each goes before the
    former. Servers with a job of `untouchable_jobs` are not taken back. `wanted_gpus` wait for servers on
    loan (`lend` = "demand" needs it); servers were taken back last `since_reclaim_s` ago.
    """

    servers: Annotated[tuple[LoanServer, ...], Field(max_length=MAX_SERVERS)]
    usage: Share | None = None
    forecast: Share | None = None
    needed: Count | None = None
    recent_usage: Annotated[tuple[Share, ...], Field(max_length=MAX_SERVERS)] = ()
    last_bin_start_s: Time | None = None
    untouchable_jobs: Annotated[tuple[Name, ...], Field(max_length=MAX_SERVERS)] = ()
    wanted_gpus: Count | None = None
    since_reclaim_s: Seconds | None = None
    rules: LoanRules | None = None

    @field_validator("servers")
    @classmethod
    def _each_server_once(cls, servers: tuple[LoanServer, ...]) -> tuple[LoanServer, ...]:
        once("server", [server.name for server in servers])
        for server in servers:
            used_gpus = sum((Counter(server.base) + Counter(server.flexible)).values())
            if used_gpus > server.gpus:
                raise ValueError(f"{used_gpus} of {server.gpus} GPUs of server {server.name!r} are used")
        return servers


# -- the answer


class ScaledInJob(Message):
    """GPUs on a server that a job's flexible workers lose; it runs on."""

    job_id: str
    server: str
    gpus: Count


class LoanAnswer(Message):
    """What to do now, in this order, and why.

    Of `servers` that are up inference needs `needed`, `headroom` more are never lent, and `target` should be
    on loan, where `on_loan` are. `preempts` are jobs that lose all their workers; `collateral_gpus` of theirs
    lie on servers that stay. `short` more should be taken back and cannot. `release` says whose rules.
    """

    release: str
    rule: str
    servers: Count
    needed: Count
    headroom: Count
    target: Count
    on_loan: Count
    forecast: float | None = None
    lend: tuple[str, ...] = ()
    take_back: tuple[str, ...] = ()
    preempts: tuple[str, ...] = ()
    scales_in: tuple[ScaledInJob, ...] = ()
    short: Count = 0
    collateral_gpus: Count = 0
    sentences: tuple[str, ...] = ()


# -- what a daemon has lent


class LoanedNode(Message):
    """A node on loan since `since_s` and why; `jobs` run there. `returning`: it goes back."""

    node: str
    since_s: Time
    why: str
    jobs: tuple[str, ...] = ()
    returning: bool = False


class LoanStatus(Message):
    """Nodes on loan from the partition `lender` to `borrower`, as they were at `at_s`.

    Of `servers` that are up inference needs `needed`, by its `usage` and its `forecast`; `headroom` more are
    never lent, and `target` should be on loan. `lend`, `take_back` and `preempts` are the last changes,
    decided at `decided_s` (mode "advise": that it would have made; "observe": none are told), `reasons` why.
    `short` more should go back and cannot. `lent`, `taken_back` and `preempted` add up since the daemon
    started. `refused` says what the cluster refused at the last look, by job or partition.
    """

    mode: Literal["observe", "advise", "control"]
    lender: str
    borrower: str
    rule: str
    at_s: Time
    servers: Count = 0
    usage: float | None = None
    forecast: float | None = None
    needed: Count = 0
    headroom: Count = 0
    target: Count = 0
    short: Count = 0
    on_loan: tuple[LoanedNode, ...] = ()
    lend: tuple[str, ...] = ()
    take_back: tuple[str, ...] = ()
    preempts: tuple[str, ...] = ()
    decided_s: Time | None = None
    reasons: tuple[str, ...] = ()
    refused: dict[str, str] = Field(default_factory=dict)
    deferred: Count = 0
    lent: Count = 0
    taken_back: Count = 0
    preempted: Count = 0
    problem: str | None = None
