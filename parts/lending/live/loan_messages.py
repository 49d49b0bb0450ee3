"""What is said of servers on loan: which to lend and to take back, asked and answered."""

from collections import Counter
from typing import Annotated

from pydantic import Field, field_validator

from live_scheduler.service.messages import Count, Gpus, Message, Name, Pushed, Seconds, Time, once

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
