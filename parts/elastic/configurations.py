"""Configurations of PCS: the published ones by name, and how one is written as JSON.

Published are those of Figure 7 of PCS (OSDI '24) for its first trace: thresholds in seconds of run time on
one GPU, shares of the cluster, and the two efficiencies (the authors' artifact, as measured there).
"""

from collections.abc import Mapping
from math import inf, isinf
from pathlib import Path
from typing import Any

from foundation import strict_json
from foundation.errors import BadInputError, UnknownNameError
from foundation.outside_names import admitted, check_opened, open_regular
from parts.elastic.rules.wfq import WfqConfig

FORMAT_VERSION = 1
FIELDS = ("thresholds_s", "weights", "efficiency_min", "efficiency_step")

PUBLISHED: Mapping[str, WfqConfig] = {
    # Short completion times at a bounded price in predictability.
    "fig7-jct": WfqConfig(
        (1_176.0, 44_690.0, 1_131_797.0, inf),
        (0.911, 0.081, 0.007, 0.001),
        0.7757997622865442,
        0.5681910536705399,
    ),
    # A balance of both.
    "fig7-bal": WfqConfig(
        (2_389.0, 1_703_593.0, inf), (0.919, 0.075, 0.006), 0.47789109567170096, 0.8255661922576591
    ),
}


def configuration_to_json(config: WfqConfig) -> dict[str, Any]:
    """Return a configuration as JSON can hold it: the last, infinite threshold is the text `inf`."""
    return {
        "format_version": FORMAT_VERSION,
        "thresholds_s": [_plain(bound) for bound in config.thresholds_s],
        "weights": list(config.weights),
        "efficiency_min": config.efficiency_min,
        "efficiency_step": config.efficiency_step,
    }


def configuration_from_json(document: Any, *, what: str = "The configuration") -> WfqConfig:
    """Read what `configuration_to_json` writes; other keys beside it are left alone.

    Raises BadInputError, which names `what`, for anything else.
    """
    if not isinstance(document, Mapping) or any(name not in document for name in FIELDS):
        raise BadInputError(f"{what} is no configuration of PCS.", remedy=f"It holds {', '.join(FIELDS)}.")
    version = document.get("format_version", FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise BadInputError(f"{what} has format version {version!r}.", remedy=f"Known: {FORMAT_VERSION}.")
    return WfqConfig(
        numbers(document["thresholds_s"], "thresholds_s"),
        numbers(document["weights"], "weights"),
        *(numbers(document[name], name)[0] for name in ("efficiency_min", "efficiency_step")),
    )


def load_configuration(name: str) -> WfqConfig:
    """Return a published configuration by name, or that of a JSON file (a name that ends in `.json`).

    Raises UnknownNameError for any other name, BadInputError for a file that holds no configuration.
    """
    if name in PUBLISHED:
        return PUBLISHED[name]
    if not name.endswith(".json"):
        raise UnknownNameError("configuration of PCS", name, (*PUBLISHED, "FILE.json"))
    try:
        with open_regular(Path(admitted(name))) as file:
            check_opened(file.fileno())
            document = strict_json.loads(file.read())
    except (OSError, ValueError, RecursionError) as error:
        raise BadInputError(f"{name} cannot be read as a configuration of PCS: {error}") from error
    return configuration_from_json(document, what=name)


def numbers(value: Any, name: str) -> tuple[float, ...]:
    """Read one or more numbers: a number, a list of them, or text such as `1176,44690,inf`."""
    parts = value.split(",") if isinstance(value, str) else value
    try:
        values = tuple(map(float, parts)) if isinstance(parts, list | tuple) else (float(parts),)
    except (TypeError, ValueError):
        values = ()
    if not values:
        raise BadInputError(f"{name} is {value!r}.", remedy="Give numbers, as in 1176,44690,inf.")
    return values


def _plain(bound: float) -> float | str:
    return "inf" if isinf(bound) else bound
