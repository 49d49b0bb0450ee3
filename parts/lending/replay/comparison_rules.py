"""The rule set `lyra`: policies of Lyra's comparison under the names that their published counterparts have.

There all of them decide once a minute, over workers, in one queue beside the inference service (Lyra, section
7.1): FIFO and shortest job first give each job its base workers on training servers, and AFS adds workers.
"""

from collections.abc import Collection

from foundation.errors import check_names
from parts.lending.policies.lyra import Lyra
from parts.lending.workers.afs_by_workers import AfsByWorkers
from simulator.scenario.rules import Rules

_ALONE = {"loaning": False, "scaling": False}


def comparison_rules(faults: Collection[str] = ()) -> Rules:
    """Return the rule set; raises UnknownNameError for a fault to leave out, as it has none."""
    check_names("fault of the rules lyra:", [fault for fault in faults if fault != "all"], ())
    return Rules(
        "lyra",
        policies={"fifo": Lyra, "sjf": Lyra, "afs": AfsByWorkers},
        policy_settings={
            "fifo": {**_ALONE, "order": "submission"},
            "sjf": _ALONE,
            "afs": {"loaning": False},
        },
    )
