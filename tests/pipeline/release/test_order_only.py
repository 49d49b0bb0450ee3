"""A real log without measured GPUs: its release orders jobs and lets none share, and may go live so."""

from collections.abc import Iterator
from typing import Any

import pytest

from foundation.site import Site
from lucid_models.packing.tree import PackingSettings
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import publish_release, show_release
from lucid_models.releases.manifest import DEFAULT_POLICY
from pipeline.overview.release_page import read_release_page
from pipeline.release.order_only import DecidedSharing, decide_sharing
from pipeline.release.release_settings import allowing_simulated, pinned_settings
from pipeline.studies.tuning.space import search_space

VERSIONS = {"packing": 1, "throughput": 1, "duration": 1}


@pytest.fixture
def of_real_log(local_shop: Any) -> Iterator[Any]:
    """Models of simulated profiles and of a real log."""
    registry = Registry(local_shop.uri)
    for kind in ("throughput", "duration"):
        registry.set_version_tag(f"lucid-{kind}", 1, "synthetic_logs", "false")
    yield local_shop
    for kind in ("throughput", "duration"):
        registry.set_version_tag(f"lucid-{kind}", 1, "synthetic_logs", "true")


def decide(
    local_shop: Any, settings: dict[str, Any], policy: str = DEFAULT_POLICY, **more: Any
) -> DecidedSharing:
    return decide_sharing(
        Site(registry=local_shop.uri, cluster="small"), settings, policy, versions=VERSIONS, **more
    )


def test_a_log_without_measured_gpus_gets_a_release_that_orders_and_goes_live(of_real_log: Any) -> None:
    decided = decide(of_real_log, pinned_settings())
    assert decided.sentence.startswith("It orders jobs and lets none share GPUs")
    assert (decided.settings["sharing"], decided.settings["profiling_nodes"]) == ("none", 0)
    version = of_real_log.approved(1, settings=dict(decided.settings))
    assert publish_release(tracking_uri=of_real_log.uri, cluster="small", version=version).alias == "champion"
    shown = show_release(tracking_uri=of_real_log.uri, cluster="small")
    assert shown.provenance == {"simulated_profiles": True, "synthetic_logs": False}
    page = read_release_page(Site(registry=of_real_log.uri, cluster="small"), version=version)
    assert page.warnings == ["It orders jobs and lets none share GPUs: its packing model decides nothing."]


@pytest.mark.parametrize(
    "stated",
    [{"sharing": "default"}, {"sharing": "apathetic"}],
    ids=lambda stated: str(stated["sharing"]),
)
def test_what_a_person_said_of_sharing_stays(of_real_log: Any, stated: dict[str, Any]) -> None:
    settings = pinned_settings(stated)
    assert decide(of_real_log, settings, stated=stated) == DecidedSharing(settings)


def test_other_settings_that_a_person_named_stay_beside_it(of_real_log: Any) -> None:
    stated = {"profiling_nodes": 3}
    decided = decide(of_real_log, pinned_settings(stated), stated=stated)
    assert (decided.settings["sharing"], decided.settings["profiling_nodes"]) == ("none", 3)


def test_jobs_share_where_a_person_allows_it_and_on_made_logs(local_shop: Any) -> None:
    assert decide(local_shop, pinned_settings()).sentence == ""


def test_tuning_lets_no_job_share_that_did_not(of_real_log: Any) -> None:
    decided = decide(of_real_log, pinned_settings())
    (sharing,) = [
        each
        for each in search_space(decided.settings, PackingSettings(), nodes=16).parameters
        if each.name == "sharing"
    ]
    assert sharing.values == ("none",)


def test_allowed_simulated_profiles_and_other_policies_stay(of_real_log: Any) -> None:
    allowed = allowing_simulated(pinned_settings(), allow=True)
    assert decide(of_real_log, allowed).settings == allowed
    fair = pinned_settings({}, "fair_share")
    assert decide(of_real_log, fair, "fair_share").settings == fair
