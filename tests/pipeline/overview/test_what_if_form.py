"""What a what-if may ask, and every rule that wrong input breaks, in words."""

from datetime import date
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.errors import LucidError
from foundation.site import Site
from pipeline.overview.what_if_form import check_what_if, cluster_choices, policy_choices
from simulator.policies.registry import policy_names, usable_policies
from tests.fixtures import ReleaseShop, small_jobs


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    lake.write_jobs("small", small_jobs(400))
    lake.write_jobs("sizeless", small_jobs(40))
    lake.write_nodes(
        "small", pd.DataFrame({"virtual_cluster": ["vc"], "nodes": 4, "gpus_per_node": 8, "date": None})
    )
    return lake.uri


def check(lake: str, **fields: Any) -> Any:
    asked = {"cluster": "small", "policies": ["fifo", "lucid"], **fields}
    return check_what_if(Site(lake=lake, registry="http://127.0.0.1:9"), asked)


def test_all_policies_are_offered_with_a_sentence_those_that_resize_last() -> None:
    choices = policy_choices()
    assert {choice.name for choice in choices} == set(usable_policies())
    assert all(choice.sentence.endswith(".") for choice in choices)
    assert [choice.resizes for choice in choices] == sorted(choice.resizes for choice in choices)
    assert [choice.name for choice in choices if choice.usual] == ["fifo", "qssf", "tiresias", "lucid"]
    knows = {choice.name: choice.knows for choice in choices}
    assert (knows["sjf"], knows["qssf"]) == ("true run times", "estimates")


@pytest.mark.slow
def test_clusters_are_offered_with_their_days_nodes_and_live_release(
    lake: str, local_shop: ReleaseShop
) -> None:
    from lucid_models.releases.lifecycle import publish_release

    version = local_shop.approved(1)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=version)
    sizeless, small = cluster_choices(Site(lake=lake, registry=local_shop.uri))
    assert (sizeless.nodes, sizeless.live) == (None, None)
    assert small.nodes == {"vc": 4}
    assert small.live == {"version": version, "policy": "lucid"}
    assert small.first_day <= small.start <= small.last_day
    said = check_what_if(
        Site(lake=lake, registry=local_shop.uri),
        {"cluster": "small", "policies": ["lucid"], "live_release": True},
    )
    assert said.replays == 1


def test_it_is_said_what_would_be_replayed(lake: str) -> None:
    days = Lake(lake).dates("small")
    said = check(lake, added_nodes={"*": 2})
    assert (said.jobs, said.replays) == (400, 4)
    assert f"4 replays of 400 jobs, {days[0]} to {days[-1]}: 2 policies" in said.sentence
    first = check(lake, start=days[0].isoformat(), end=days[1].isoformat())
    assert 0 < first.jobs < 400


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"cluster": "../etc"}, "cluster"),
        ({"cluster": "nowhere"}, "cluster of the lake"),
        ({"cluster": "sizeless"}, "nodes"),
        ({"policies": []}, "Tick at least one"),
        ({"policies": ["lifo"]}, "policy"),
        ({"start": "yesterday"}, "yesterday"),
        ({"start": "2031-01-01"}, "the lake has"),
        ({"start": "2020-04-05", "end": "2020-04-05"}, "End them later"),
        ({"added_nodes": {"vc": -4}}, "Leave it at least one"),
        ({"added_nodes": {"gpu": 1}}, "virtual cluster"),
        ({"added_nodes": {"vc": 0.5}}, "whole numbers"),
        ({"policies": list(policy_names()), "seeds": [1, 2]}, "field of a what-if"),
    ],
)
def test_wrong_input_is_refused_with_its_rule(lake: str, fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(LucidError, match=rule):
        check(lake, **fields)


def test_days_are_of_the_lake(lake: str) -> None:
    days = Lake(lake).dates("small")
    assert isinstance(days[0], date)
    assert check(lake, start="1999-01-01", end="2031-01-01").jobs == 400
