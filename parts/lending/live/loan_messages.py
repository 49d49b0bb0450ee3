"""Servers on loan in messages: what to lend and take back, what is known after a look, Prometheus metrics."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from live_scheduler.capability import some_nodes
from live_scheduler.service.messages import Count, Gpus, Message, Name, Pushed, Seconds, Time, once

if TYPE_CHECKING:
    from prometheus_client.core import Metric


MAX_SERVERS = 2_000
MAX_JOBS_OF_A_SERVER = 1_000
Share = Annotated[float, Field(ge=0, le=1)]
GpusByJob = Annotated[dict[Name, Gpus], Field(max_length=MAX_JOBS_OF_A_SERVER)]


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

    def describe_wanted(self) -> str:
        """Return the last changes as a sentence for people, "" without any."""
        would = "" if self.mode == "control" else "would "
        parts = [f"{would}lend {some_nodes(self.lend, most=50)}"] if self.lend else []
        if self.take_back:
            jobs = f", which preempts {len(self.preempts)} jobs" if self.preempts else ""
            parts.append(f"{would}take back {some_nodes(self.take_back, most=50)}{jobs}")
        return "; ".join(parts)

    def told(self) -> "LoanStatus":
        """Return what people are told: in the mode observe no changes."""
        if self.mode != "observe":
            return self
        return self.with_changes(lend=(), take_back=(), preempts=(), decided_s=None)


def loan_metrics(seen: LoanStatus) -> "Iterator[Metric]":
    """Yield what the last look at nodes on loan says."""
    from live_scheduler.service.metrics import counters, gauges  # it imports all messages

    returning = sum(each.returning for each in seen.on_loan)
    yield from gauges(
        (
            ("inference_servers", "Nodes of inference that are up, those on loan included.", seen.servers),
            ("inference_servers_needed", "Nodes that inference needs.", seen.needed),
            ("inference_headroom_servers", "Further nodes that are never lent.", seen.headroom),
            ("loan_target_servers", "Nodes that should be on loan.", seen.target),
            ("loaned_servers", "Nodes on loan.", len(seen.on_loan) - returning),
            ("returning_servers", "Nodes on their way back to inference.", returning),
            ("loan_short_servers", "Nodes that should go back and cannot: their jobs must stay.", seen.short),
            ("loan_problem", "1 when nodes stay as they are for a reason.", seen.problem is not None),
            ("inference_usage_ratio", "Share of its nodes that inference uses.", seen.usage),
            ("inference_usage_forecast_ratio", "The forecast of that share that counts.", seen.forecast),
        )
    )
    yield from counters(
        (
            ("servers_lent", "Nodes that were lent.", seen.lent),
            ("servers_taken_back", "Nodes that were taken back.", seen.taken_back),
            (
                "loan_preemptions",
                "Jobs that were requeued since their node was taken back.",
                seen.preempted,
            ),
        )
    )
