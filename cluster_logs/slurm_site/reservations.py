"""Reservations of nodes, as `TZ=UTC scontrol -o show reservation` prints them."""

from datetime import UTC, datetime

from cluster_logs.host_lists import listed_hosts
from cluster_logs.site.rules import NodeReservation
from cluster_logs.slurm_site.key_account import KeyAccount
from foundation.errors import BadInputError

_EFFECTS = {
    "Features": "the nodes are chosen by it; the replay keeps the ones that Slurm has chosen",
    "Licenses": "licences are kept; the replay has as many as jobs want",
    "BurstBuffer": "a burst buffer is kept; the replay knows none",
    "Groups": "its jobs are of groups; the replay knows users and accounts alone",
}
_NOTHING = frozenset({"", "(null)"})


def read_reservations(text: str, file: str, account: KeyAccount) -> tuple[NodeReservation, ...]:
    """Return the reservations of a text whose times are UTC. Raises BadInputError for a line that is none."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip().startswith("ReservationName="):
            continue
        said = dict(word.partition("=")[::2] for word in line.split())
        name = said["ReservationName"]
        try:
            start, end = (
                datetime.fromisoformat(said[key]).replace(tzinfo=UTC) for key in ("StartTime", "EndTime")
            )
        except (KeyError, ValueError) as error:
            raise BadInputError(
                f"{file}, line {number}: reservation {name!r} has no times: {error}.",
                remedy="Write what `TZ=UTC scontrol -o show reservation` prints.",
            ) from error
        flags = _names(said, "Flags")
        found.append(
            NodeReservation(
                name=name,
                start=start,
                end=end,
                nodes=tuple(listed_hosts(nodes)) if (nodes := said.get("Nodes", "")) not in _NOTHING else (),
                users=_names(said, "Users"),
                accounts=_names(said, "Accounts"),
                flags=flags,
            )
        )
        for key, effect in _EFFECTS.items():
            if said.get(key, "") not in _NOTHING:
                account.ignored(key, f"reservation {name}: {said[key]}", effect)
    return tuple(found)


def _names(said: dict[str, str], key: str) -> tuple[str, ...]:
    value = said.get(key, "")
    return () if value in _NOTHING else tuple(filter(None, value.split(",")))
