"""What a plan says of servers on loan: nodes and waits that they save, and how many inference needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from cluster_logs.lake import Lake
from foundation.csv_files import csv_text
from foundation.errors import BadInputError, NotFoundError
from foundation.storage import write_bytes
from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.jobs_in_workers import JobMix
from parts.lending.replay.policy_beside_inference import LOANING, borrows_itself
from parts.lending.replay.settings import LoanSettings
from parts.lending.steps.inference_lender import InferenceLender
from parts.lending.steps.inference_servers import servers_of_inference
from pipeline.planning.plan_rows import PlanTable
from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_part import AskedOfLog, BesidePlan, ClusterOfLake, PlannedPart
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.questions import PlanAnswer, Questions
from pipeline.planning.replays import Replayed
from simulator.replay import policy_for

WORKER_FORMAT = "lyra-csv"


@dataclass(frozen=True)
class AskedLoans:
    """`lend`: whether each variant is replayed with servers on loan, too; None: if it can be.

    `most_short_pct` of the bins of inference load may lack servers.
    """

    lend: bool | None = None
    most_short_pct: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.most_short_pct <= 100:
            raise BadInputError(f"most_short_pct is {self.most_short_pct!r}.", remedy="Use 0 to 100.")


class PlannedLoans(PlannedPart):
    """A run's value is whether inference servers are lent; None: the policy's own settings say."""

    key = LOANING
    absent: bool | None = None
    nothing = AskedLoans()
    fields = ("loans", "headroom", "most_short_pct")
    log_fields = ("inference", "inference_servers", "scenario", "loaned_workers", "lake_load")
    rules_of_formats: Mapping[str, str] = {WORKER_FORMAT: "lyra"}
    figures = ("servers_on_loan_mean", "on_loan_usage_pct", "inference_short_pct", "reclaims")
    kept_figures = ("jobs_on_loan",)

    def of_form(self, stated: Mapping[str, Any]) -> AskedLoans:
        """Return whether loans are asked for: unless the form leaves them out, where they can be."""
        return AskedLoans(
            None if stated.get("loans", True) else False, float(stated.get("most_short_pct", 2.0))
        )

    def run_settings(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Return the headroom of inference."""
        return {"headroom": float(stated["headroom"])} if "headroom" in stated else {}

    def check(self, asked: AskedLoans, run: PlannedRun) -> PlannedRun:
        """Return the run with servers on loan, unless none may be lent."""
        return run if asked.lend is False else run.with_part(self, True)

    def for_log(self, asked: AskedLoans, run: PlannedRun, log: PlannedLog) -> AskedOfLog:
        """Lend where the log has inference servers, and the policy can borrow them."""
        scenario = log.scenario
        kept = replace(asked, lend=False)
        if asked.lend is False or (asked.lend is None and scenario.lender is None):
            return AskedOfLog(kept, self._without(run, log))
        if scenario.lender is None:
            raise BadInputError(
                "Nothing can be lent: there is no inference load of a known number of servers.",
                remedy="Give the load of its servers.",
            )
        try:
            policy_for(scenario, run.policy, self.check(asked, run).all_settings)
        except BadInputError as error:
            if asked.lend:
                raise
            return AskedOfLog(kept, self._without(run, log), (f"Nothing is lent. {error}",))
        return AskedOfLog(replace(asked, lend=True), run)

    def _without(self, run: PlannedRun, log: PlannedLog) -> PlannedRun:
        """Return the run without loans, also of a policy that would lend by itself."""
        if log.scenario.lender is not None and borrows_itself(run.policy, log.scenario.rules):
            return replace(run, settings={**run.settings, LOANING: False})
        return run

    def values(self, asked: AskedLoans) -> tuple[bool | None, ...]:
        """Without and with loans; None where nothing can be lent."""
        return (False, True) if asked.lend else (None,)

    def check_log(self, stated: Mapping[str, Any], source_format: str | None) -> None:
        """Jobs in workers are replayed beside inference servers."""
        if source_format == WORKER_FORMAT and stated.get("inference") is None:
            raise BadInputError(
                f"A log of {WORKER_FORMAT} is replayed beside inference servers.", remedy="Give their load."
            )

    def beside_log(
        self, stated: Mapping[str, Any], in_lake: ClusterOfLake | None, replays_uri: str
    ) -> BesidePlan:
        """Return the servers of a load that may be lent.

        `inference` is a file of it; `lake_load`: where it is not given, the lake's of the cluster, if there
        is one of a known number of servers.
        """
        inference, servers = stated.get("inference"), stated.get("inference_servers")
        if inference is None and in_lake is not None and stated.get("lake_load", True):
            inference = _frozen_load(in_lake, replays_uri, servers)
        if inference is None:
            return BesidePlan()
        scenario, loaned_workers = stated.get("scenario", "basic"), stated.get("loaned_workers")
        words = ["--inference", inference if "://" in inference else str(Path(inference).absolute())]
        words += ["--scenario", scenario]
        words += ["--loaned-workers", str(loaned_workers)] if loaned_workers else []
        words += ["--inference-servers", str(servers)] if servers else []
        lender = InferenceLender(inference, servers, JobMix(scenario=scenario), loaned_workers)
        return BesidePlan((lender,), tuple(words))

    def policy_settings(self, value: bool | None) -> dict[str, Any]:
        """The policy's own setting of loans."""
        return {} if value is None else {LOANING: value}

    def words(self, value: bool | None) -> str:
        """Loans, where there are any."""
        return "loans" if value else ""

    def command_words(self, value: bool | None) -> list[str]:
        """`--loaning`."""
        return [] if value is None else ["--loaning", "on" if value else "off"]

    def answers(
        self, questions: Questions, run: PlannedRun, nodes: Sequence[PlanAnswer], sizes: Mapping[str, int]
    ) -> list[PlanAnswer]:
        """Ask what loans save: nodes, by the answers with and without them, and waits.

        `used_gpu_h` are the GPU hours that jobs held on servers on loan until the last job ended.
        """
        if not run.value_of(self):
            return []
        unlent = run.with_part(self, False)
        of_variant = {answer.variant: answer.figures.get("nodes") for answer in reversed(nodes)}
        with_loans, without = of_variant[run.variant], of_variant[unlent.variant]
        saved = None if with_loans is None or without is None else without - with_loans
        fewer = "" if saved is None else f" {saved:,} nodes need not be there to keep the limit."
        answers = []
        for what, size in sizes.items():
            borrowed, reference = questions.sized(run, size), questions.sized(unlent, size)
            used_gpu_h = _gpu_hours_on_loan(questions.table, borrowed)
            names = ("servers_on_loan_mean", "reclaims", "preemptions")
            figures = {name: borrowed.figures.get(name) for name in names}
            answers.append(
                questions.changed(
                    "loans",
                    f"What do loans save on {size:,} nodes ({what})?",
                    f"The mean wait changes by {{}}; jobs use {used_gpu_h:,.0f} GPU hours of servers on "
                    f"loan.{fewer}",
                    {"nodes": size, "size": what, "saved_nodes": saved, "used_gpu_h": used_gpu_h, **figures},
                    (borrowed, reference),
                )
            )
        return answers

    def closing_answers(self, asked: AskedLoans, run: PlannedRun, log: PlannedLog) -> list[PlanAnswer]:
        """Ask how many inference servers their load needs, alone and while idle ones are lent."""
        service = log.scenario.companion(InferenceService)
        if service is None:
            return []
        return servers_of_inference(
            service,
            headroom=float(run.settings.get("headroom", LoanSettings().headroom)),
            most_short_pct=asked.most_short_pct,
            lending=bool(asked.lend),
        )


def _frozen_load(in_lake: ClusterOfLake, replays_uri: str, servers: int | None) -> str | None:
    """Write the lake's inference load to a file to replay; None: the lake has none that can be lent."""
    try:
        load = Lake(in_lake.lake_uri).read_series("inference_load", in_lake.cluster)
    except NotFoundError:
        return None
    if servers is None and load["servers"].isna().all():
        return None
    text = csv_text(load[["time", "usage", "servers", "gap"]].assign(gap=load["gap"].astype(int)))
    uri = f"{replays_uri.rstrip('/')}/load-{sha256(text.encode()).hexdigest()[:12]}.csv"
    write_bytes(uri, text.encode())
    return uri


def _gpu_hours_on_loan(table: PlanTable, replayed: Replayed) -> float:
    figures = replayed.figures
    hours = figures["makespan_s"] / 3_600 * table.log.gpus_per_node
    used_pct = figures["on_loan_usage_pct"] or 0.0  # None: nothing was lent
    return float(hours * figures["servers_on_loan_mean"] * used_pct / 100)


PLANNED = PlannedLoans()
