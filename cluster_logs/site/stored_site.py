"""The declaration that a lake keeps of a cluster: ROOT/sites/cluster=C/site.toml, for people to read too."""

import tomllib

from cluster_logs.site.rules import SchedulerRules, SiteRules
from cluster_logs.site.site_file import site_from, site_text
from foundation.errors import BadInputError
from foundation.outside_names import check_cluster_name
from foundation.storage import read_bytes, write_bytes

SITES = "sites"
# Strictly first in, first out: Slurm's own scheduler without backfilling.
FIRST_IN_FIRST_OUT = SiteRules(scheduler=SchedulerRules(type="builtin"))


def site_uri(lake_uri: str, cluster: str) -> str:
    """Where a lake keeps the declaration of a cluster."""
    return f"{lake_uri.rstrip('/')}/{SITES}/cluster={check_cluster_name(cluster)}/site.toml"


def stored_site(lake_uri: str, cluster: str) -> SiteRules | None:
    """Return what was declared of a cluster; None: nothing was.

    Raises BadInputError naming file, key and value for a file that cannot be used.
    """
    uri = site_uri(lake_uri, cluster)
    payload = read_bytes(uri)
    if payload is None:
        return None
    try:
        document = tomllib.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadInputError(
            f"The site {uri} cannot be read: {error}.", remedy="Declare it again: `lucid site keep`."
        ) from error
    return site_from(document, uri)


def store_site(rules: SiteRules, lake_uri: str, cluster: str) -> str:
    """Keep a declaration for a cluster in the place of the one before; return where."""
    uri = site_uri(lake_uri, cluster)
    write_bytes(uri, site_text(rules).encode())
    return uri
