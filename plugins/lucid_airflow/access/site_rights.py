"""A site's table of rights (LUCID_RIGHTS): which people may do what to which clusters.

    [[right]]
    people = ["ann", "ben"]          # by the names that they log in to Airflow with; "*": everyone
    acts = ["train", "judge"]        # of `access/acts.py`; "*": every act
    clusters = ["venus"]             # by name; "*": every cluster

It only takes away: what Airflow's roles do not let a person do, no table gives. With a table, whatever no row
gives is refused. Without one (LUCID_RIGHTS is not set) roles alone decide.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foundation.errors import BadInputError, check_names
from lucid_airflow.access.acts import Act

EVERY = "*"
_FIELDS = ("people", "acts", "clusters")


@dataclass(frozen=True)
class Right:
    """A row: each of these people may do each of these acts to each of these clusters."""

    people: frozenset[str]
    acts: frozenset[str]
    clusters: frozenset[str]

    def covers(self, act: Act, cluster: str | None) -> bool:
        """Whether it is about an act, on a cluster; None: on any cluster at all."""
        return not {act, EVERY}.isdisjoint(self.acts) and (
            cluster is None or not {cluster, EVERY}.isdisjoint(self.clusters)
        )


@dataclass(frozen=True)
class SiteRights:
    """The table; `rows` None: there is none, and it takes nothing away."""

    rows: tuple[Right, ...] | None = None

    def may(self, person: str, act: Act, cluster: str | None = None) -> bool:
        """Whether the table lets a person do it to a cluster; None: to at least one."""
        return self.rows is None or any(
            not {person, EVERY}.isdisjoint(row.people) for row in self.rows if row.covers(act, cluster)
        )

    def people(self, act: Act, cluster: str) -> list[str]:
        """Return who may do it to a cluster, by name; empty: it names nobody in particular."""
        rows = [row for row in self.rows or () if row.covers(act, cluster)]
        return sorted(frozenset().union(*(row.people for row in rows)) - {EVERY})


def read_site_rights(path: Path | None) -> SiteRights:
    """Read the table of a file; None: there is none.

    Raises BadInputError for a file that cannot be read, an unknown act or field, and a row that lacks one:
    then nothing is allowed, rather than everything.
    """
    if path is None:
        return SiteRights()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(
            f"The table of rights {path} cannot be read: {error.strerror}.",
            remedy="Mend it, or unset LUCID_RIGHTS: then Airflow's roles alone decide.",
        ) from error
    except ValueError as error:
        raise BadInputError(
            f"The table of rights {path} is no TOML: {error}.", remedy="See docs/security.md."
        ) from error
    rows = document.pop("right", [])
    if document or not isinstance(rows, list):
        raise BadInputError(
            f"The table of rights {path} has {', '.join(sorted(document)) or 'right'} where only [[right]] "
            "may be.",
            remedy="Write each row as [[right]] with people, acts and clusters.",
        )
    return SiteRights(tuple(_right(row, f"Row {i} of {path}") for i, row in enumerate(rows, 1)))


def _right(row: Any, where: str) -> Right:
    fields: Mapping[str, Any] = row if isinstance(row, dict) else {}
    if set(fields) != set(_FIELDS):
        raise BadInputError(
            f"{where} has the fields {', '.join(sorted(fields)) or 'none'}.",
            remedy=f"Give it {', '.join(_FIELDS)}, and no other.",
        )
    people, acts, clusters = (_names(fields[name], f"{where}: {name}") for name in _FIELDS)
    check_names("act", acts, [*Act, EVERY])
    return Right(frozenset(people), frozenset(acts), frozenset(clusters))


def _names(value: Any, where: str) -> Sequence[str]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
        raise BadInputError(f"{where} is {value!r}.", remedy='Give a list of names, as ["venus"].')
    return value
