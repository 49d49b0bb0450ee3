"""The options of `lucid simulate` for jobs in workers and servers on loan from inference (Lyra)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from foundation.errors import BadInputError
from lucid_cli.options import file_option

if TYPE_CHECKING:
    from pipeline.loaning.inference_lender import InferenceLender

Switch = Literal["on", "off"]
WORKER_FORMAT, WORKER_RULES = "lyra-csv", "lyra"
_POLICY_DEFAULT = "Default: the policy's."

TrainingServersOption = Annotated[
    int | None, typer.Option("--training-servers", min=1, metavar="N", help="Or: N nodes for every job.")
]
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

_SHARES = {
    "elastic": "elastic_share",
    "heterogeneous": "heterogeneous_share",
    "checkpoint": "checkpoint_share",
    "estimate_error": "estimate_error_share",
    "loss": "loss",
}


@dataclass(frozen=True)
class LentServers:
    """Group of options: inference servers that may be lent, and the jobs in workers that borrow them."""

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

    def lender(self, source_format: str, job_shares: Sequence[str]) -> "InferenceLender | None":
        """Return what lends servers; None without a load. Raises BadInputError for half of the options."""
        from pipeline.loaning.inference_lender import InferenceLender
        from simulator.loaning.jobs_in_workers import JobMix

        if self.inference is None:
            if source_format == WORKER_FORMAT:
                raise BadInputError(
                    f"A log of {WORKER_FORMAT} is replayed beside inference servers.",
                    remedy="Give their load, --inference FILE.",
                )
            if job_shares or replace(self, loaning=None) != LentServers():
                raise BadInputError(
                    "--inference-servers, --loaned-workers, --scenario and --job-share are for servers on "
                    "loan.",
                    remedy="Give --inference FILE.",
                )
            return None
        return InferenceLender(
            path=str(self.inference),
            servers=self.inference_servers,
            mix=JobMix(scenario=self.scenario, **_shares(job_shares)),
            loaned_workers_per_worker=self.loaned_workers,
        )


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
    from simulator.loaning.policy_beside_inference import LOANING, setting_names
    from simulator.rule_sets import load_rules

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
