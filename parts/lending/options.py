"""Options of jobs in workers, servers on loan from inference and their load (Lyra), of each command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer

from foundation.errors import BadInputError
from lucid_cli.options import file_option, text_of
from lucid_cli.part_options import (
    IngestOptions,
    ModelVersionOption,
    PlanOptions,
    ReleaseOptions,
    ReplayOptions,
)

Switch = Literal["on", "off"]
WORKER_FORMAT, WORKER_RULES = "lyra-csv", "lyra"
LOAD_FORMAT = "inference-load"
_POLICY_DEFAULT = "Default: the policy's."

ScalingOption = Annotated[
    Switch | None, typer.Option("--scaling", help=f"Whether jobs scale. {_POLICY_DEFAULT}")
]
ReclaimOption = Annotated[
    str | None,
    typer.Option(
        "--reclaim",
        metavar="RULE",
        help=f"How servers to give back are chosen: exact, reference, scf, random. {_POLICY_DEFAULT}",
    ),
]
JobShareOption = Annotated[
    list[str] | None,
    typer.Option(
        "--job-share",
        metavar="NAME=SHARE",
        help="A share of the jobs, by the log's draws: elastic, heterogeneous, checkpoint or estimate_error; "
        "loss=0.2: what scaling costs. May be repeated.",
    ),
]

# What is known of inference servers beside their load.
ServersOption = Annotated[
    int | None, typer.Option("--servers", min=1, help="Inference servers, where their load does not say.")
]
FullLoadOption = Annotated[
    float | None,
    typer.Option(
        "--full-load",
        metavar="RATE",
        help="Requests a second that occupy all inference servers; default of a file: 65 % is its mean.",
    ),
]
RatesColumnOption = Annotated[
    str,
    typer.Option("--rates-column", metavar="NAME", help="Column of a file of inference load with its rates."),
]
ZerosAreGapsOption = Annotated[
    bool, typer.Option("--zeros-are-gaps", help="A load of exactly zero was not measured.")
]

_OF_POLICIES = ("loaning", "scaling", "reclaim")  # options that are settings of a policy
_SHARES = {
    "elastic": "elastic_share",
    "heterogeneous": "heterogeneous_share",
    "checkpoint": "checkpoint_share",
    "estimate_error": "estimate_error_share",
    "loss": "loss",
}


@dataclass(frozen=True)
class LentServers:
    """Inference servers that may be lent, and the jobs in workers that borrow them."""

    inference: Annotated[
        Path | None,
        file_option("Load of inference servers (format inference-load), which may be lent to training."),
    ] = None
    inference_servers: Annotated[
        int | None,
        typer.Option(
            "--inference-servers",
            min=1,
            metavar="N",
            help="Inference servers, where their load does not say.",
        ),
    ] = None
    scenario: Annotated[
        Literal["basic", "advanced", "heterogeneous", "ideal"],
        typer.Option("--scenario", help="Which jobs in workers may run where (docs/policies.md)."),
    ] = "basic"
    loaning: Annotated[
        Switch | None,
        typer.Option(
            "--loaning",
            help="Whether servers are lent, under any policy. Default: as a policy that lends itself has it.",
        ),
    ] = None
    loaned_workers: Annotated[
        int | None,
        typer.Option(
            "--loaned-workers",
            min=1,
            metavar="K",
            show_default=False,
            help="Loaned workers that do the work of one. Default: 3; of jobs that are not in workers a GPU "
            "on loan does what one of their own does.",
        ),
    ] = None


@dataclass(frozen=True)
class LoadInIngest(IngestOptions):
    """What is known of inference servers beside a file of their load."""

    servers: ServersOption = None
    full_load: FullLoadOption = None
    zeros_are_gaps: ZerosAreGapsOption = False
    rates_column: RatesColumnOption = "requests_per_s"

    def beside(self, source_format: str) -> object:
        """Return it for a file of load."""
        from parts.lending.load.table import LoadReading

        if source_format != LOAD_FORMAT:
            return None
        return LoadReading(self.servers, self.full_load, self.zeros_are_gaps, self.rates_column)


@dataclass(frozen=True)
class LoansInReplay(LentServers, ReplayOptions):
    """Servers on loan beside the policy of a replay."""

    title: ClassVar[str] = "Servers on loan, and jobs in workers"
    columns: ClassVar[tuple[str, ...]] = (
        "policy",
        "preemptions",
        "reclaims",
        "servers_reclaimed",
        "scaling_operations",
        "training_usage_pct",
        "on_loan_usage_pct",
        "all_usage_pct",
    )

    scaling: ScalingOption = None
    reclaim: ReclaimOption = None
    job_share: JobShareOption = None

    def rules(self, source_format: str) -> str | None:
        """Return the rules of a log of jobs in workers."""
        return WORKER_RULES if source_format == WORKER_FORMAT else None

    def companion(self, source_format: str, seed: int) -> Any:
        """Return what lends servers; None without a load."""
        from parts.lending.replay.jobs_in_workers import JobMix
        from parts.lending.steps.inference_lender import InferenceLender

        if self.inference is None:
            if source_format == WORKER_FORMAT:
                raise BadInputError(
                    f"A log of {WORKER_FORMAT} is replayed beside inference servers.",
                    remedy="Give their load, --inference FILE.",
                )
            of_servers = replace(self, loaning=None, scaling=None, reclaim=None, job_share=None)
            if self.job_share or of_servers != LoansInReplay():
                raise BadInputError(
                    "--inference-servers, --loaned-workers, --scenario and --job-share are for servers on "
                    "loan.",
                    remedy="Give --inference FILE.",
                )
            if self.loaning == "on":
                raise BadInputError(
                    "No load of inference servers is given, so there are none to lend.",
                    remedy="Give --inference FILE.",
                )
            return None
        return InferenceLender(
            path=str(self.inference),
            servers=self.inference_servers,
            mix=JobMix(scenario=self.scenario, **_shares(self.job_share or [])),
            loaned_workers_per_worker=self.loaned_workers,
        )

    def policy_settings(
        self, settings: Mapping[str, Mapping[str, object]], policies: Sequence[str], rules: str
    ) -> dict[str, dict[str, object]]:
        """Return the settings with those of loans, where a policy has such a setting; `loaning` any has."""
        switches = {name: getattr(self, name) for name in _OF_POLICIES}
        return with_loan_settings(settings, policies, rules, switches)


@dataclass(frozen=True)
class LoansInPlan(LentServers, PlanOptions):
    """What servers on loan change, of a plan."""

    most_short_pct: Annotated[
        float,
        typer.Option(min=0, max=100, metavar="PCT", help="Of the bins of --inference that may lack servers."),
    ] = 2.0

    def of_log(self) -> dict[str, Any]:
        """Return the load, and which jobs borrow."""
        return {
            "inference": text_of(self.inference),
            "inference_servers": self.inference_servers,
            "scenario": self.scenario,
            "loaned_workers": self.loaned_workers,
            "lake_load": self.loaning != "off",
        }

    def asked(self) -> dict[str, Any]:
        """Return whether loans are asked about, and what they may cost inference."""
        from parts.lending.steps.planned_loans import AskedLoans

        wanted = None if self.loaning is None else self.loaning == "on"
        return {"loaning": AskedLoans(wanted, self.most_short_pct)}


@dataclass(frozen=True)
class LoansInRelease(ReleaseOptions):
    """A release under which inference lends servers."""

    field: ClassVar[str] = "loaning"
    kind: ClassVar[str] = "inference_load"
    example: ClassVar[str] = "usage=forecast"

    inference_load: ModelVersionOption = None
    loaning: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Inference may lend servers: a setting of loans, such as headroom=0.02; may be repeated.",
        ),
    ] = None

    def version(self) -> int | None:
        """Return the version of the inference load model."""
        return self.inference_load


def _shares(pairs: Sequence[str]) -> dict[str, float]:
    shares = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not sign or name not in _SHARES or number != number:
            raise BadInputError(
                f"--job-share {pair!r} is not NAME=SHARE.",
                remedy=f"Write for example checkpoint=0.2; names are {', '.join(_SHARES)}.",
            )
        shares[_SHARES[name]] = number
    return shares


def with_loan_settings(
    settings: Mapping[str, Mapping[str, object]],
    policies: Sequence[str],
    rules: str,
    switches: Mapping[str, Switch | str | None],
) -> dict[str, dict[str, object]]:
    """Return the policies' settings with those that the options say, where a policy has such a setting;
    `loaning` any has.

    `switches` are the options by the setting's name; None: not given. Raises BadInputError for one that no
    policy has.
    """
    from parts.lending.replay.policy_beside_inference import LOANING, setting_names
    from simulator.scenario.rules import load_rules

    rule_set = load_rules(rules)
    changed = {name: dict(values) for name, values in settings.items()}
    for setting, value in switches.items():
        if value is None:
            continue
        having = [
            policy
            for policy in policies
            if setting == LOANING
            or setting in setting_names(policy, rule_set)
            or (setting == "reclaim" and switches.get(LOANING) == "on")
        ]
        if not having and value != "off":
            raise BadInputError(
                f"--{setting} is no setting of {', '.join(policies)}.",
                remedy="Choose a policy that has it, as lyra.",
            )
        for policy in having:
            setting_value = value == "on" if value in ("on", "off") else value
            changed.setdefault(policy, {}).setdefault(setting, setting_value)
    return changed
