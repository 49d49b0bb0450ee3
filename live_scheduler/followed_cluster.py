"""Which cluster's releases are followed where none is named."""

from collections.abc import Iterable
from pathlib import Path

from foundation.errors import ServiceUnavailableError
from live_scheduler.release_server import ReleaseServer
from live_scheduler.release_store import ReleaseStore
from lucid_models.releases.manifest import cluster_of
from lucid_models.releases.only_cluster import the_only


def followed_cluster(tracking_uri: str, alias: str, kept_in: Iterable[Path]) -> str:
    """The only cluster with a release on the server; while that is away, the only one with a kept release.

    `kept_in` are state folders of release clients. Raises BadInputError where several could be meant,
    NotFoundError where none could.
    """
    server = ReleaseServer(tracking_uri)
    try:
        clusters = sorted(filter(None, map(cluster_of, server.models_with(alias))))
        return the_only(clusters, where=server.uri)
    except ServiceUnavailableError as error:
        kept = {name for folder in kept_in for name in ReleaseStore(folder).clusters(alias, server.uri)}
        return the_only(sorted(kept), where=f"this machine ({error})")
    finally:
        server.close()
