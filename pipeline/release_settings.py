"""What an operator may set: the policy's settings that a release pins, and the gate's rules."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast, get_args

from cluster_logs.errors import BadInputError, UnknownNameError
from lucid_models.releases.store import ALLOW_SIMULATED
from pipeline.validation.replay_inputs import JobTypes
from simulator.gate.rules import GateRules
from simulator.policies.lucid import LucidSettings
from simulator.policies.registry import load_policy


@dataclass(frozen=True)
class GateSettings:
    """How a release is validated.

    - `rules`: objective, margins and limits.
    - `warm_up_days`: days before the window whose jobs fill the cluster without being counted.
    - `job_types`: profiles that the log lacks are "drawn" from the measured ones (seeded with `seed`), or,
      with "log", such jobs never share their GPUs.
    """

    rules: GateRules = field(default_factory=GateRules)
    warm_up_days: float = 2.0
    job_types: JobTypes = "drawn"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.warm_up_days <= 365:
            raise BadInputError(f"warm_up_days is {self.warm_up_days!r}.", remedy="Use 0 to 365.")


def pinned_settings(chosen: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return all of Lucid's settings, the chosen ones in place of their defaults.

    A release pins every one, so that a new default changes no old release.

    Raises UnknownNameError for a setting that does not exist, BadInputError for a bad value.
    """
    given = dict(chosen or {})
    allowed = {ALLOW_SIMULATED: given.pop(ALLOW_SIMULATED)} if ALLOW_SIMULATED in given else {}
    load_policy("lucid", given)
    return {**asdict(LucidSettings(**given)), **allowed}


def gate_settings(rules: Mapping[str, Any], job_types: str = "drawn") -> GateSettings:
    """Return how to validate, with the given rules in place of their defaults.

    Raises UnknownNameError for a rule or a way to find job types that does not exist, BadInputError for a bad
    value.
    """
    known = [field.name for field in fields(GateRules)]
    for name in rules:
        if name not in known:
            raise UnknownNameError("rule of the gate", name, known)
    if job_types not in get_args(JobTypes):
        raise UnknownNameError("way to find job types", job_types, get_args(JobTypes))
    return GateSettings(rules=GateRules(**rules), job_types=cast("JobTypes", job_types))
