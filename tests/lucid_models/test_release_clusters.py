"""Schedulers follow one alias: a release for another cluster does not slip in behind it."""

import pytest

from cluster_logs.errors import ReleaseRefusedError
from lucid_models.registry import RegisteredVersion
from lucid_models.releases.manifest import Provenance, ReleaseManifest
from lucid_models.releases.store import check_same_cluster


def champion(cluster: str, synthetic: str = "false") -> RegisteredVersion:
    return RegisteredVersion("lucid-release", 3, "run", {"cluster": cluster, "synthetic_logs": synthetic}, 0)


def manifest(cluster: str) -> ReleaseManifest:
    values = dict.fromkeys(ReleaseManifest.__dataclass_fields__)
    return ReleaseManifest(
        **{**values, "cluster": cluster, "provenance": Provenance(False, False)}  # type: ignore[arg-type]
    )


def test_a_release_for_another_cluster_is_refused_with_both_names():
    with pytest.raises(ReleaseRefusedError, match=r"Release 4 is for cluster 'b', but schedulers of 'a'"):
        check_same_cluster(manifest("b"), 4, champion("a"))


def test_the_same_cluster_and_a_synthetic_champion_may_be_replaced():
    check_same_cluster(manifest("a"), 4, champion("a"))
    check_same_cluster(manifest("b"), 4, champion("synthetic-venus", synthetic="true"))
