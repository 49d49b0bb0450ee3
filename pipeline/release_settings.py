"""What an operator may set: the policy's settings that a release pins, and the gate's rules."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, cast, get_args

from cluster_logs.errors import UnknownNameError
from lucid_models.release_store import ALLOW_SIMULATED
from pipeline.release_validation import GateSettings
from pipeline.replay_inputs import JobTypes
from simulator.gate.rules import GateRules
from simulator.policies.lucid import LucidSettings
from simulator.policies.registry import load_policy


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
