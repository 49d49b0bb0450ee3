"""The gate's rules that an installation sets for all of its clusters: LUCID_GATE_RULES, a JSON object."""

from typing import Any

from foundation.environment import read_json_object
from foundation.errors import BadInputError
from simulator.gate.rules import GateRules

VARIABLE = "LUCID_GATE_RULES"


def installed_rules() -> dict[str, Any]:
    """Return the rules that this installation states, by name; the others keep their defaults.

    Raises BadInputError when the variable holds no JSON object, a name that is no rule, or a bad value.
    """
    given = read_json_object(VARIABLE, example='{"site_margin_pct": 2, "unproven": "publish_harmless"}')
    try:
        GateRules.from_data(given)
    except BadInputError as error:
        raise BadInputError(f"{VARIABLE}: {error}") from error
    return given
