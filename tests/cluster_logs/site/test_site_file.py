"""A site.toml is read as it was written, and what it cannot say is refused by file, key and value."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.site.rules import (
    Account,
    Ignored,
    NodeReservation,
    Nodes,
    Partition,
    PreemptionRules,
    PriorityRules,
    Qos,
    SchedulerRules,
    SiteRules,
    User,
)
from cluster_logs.site.site_file import read_site, site_data, site_from, site_text, write_site
from foundation.errors import BadInputError, NotFoundError

SITE = SiteRules(
    name="mini",
    priority=PriorityRules(type="multifactor", weight_age=70_000, weight_tres={"gres/gpu": 10.5}),
    scheduler=SchedulerRules(bf_interval_s=120, bf_continue=True),
    preemption=PreemptionRules(type="qos", mode="requeue"),
    qos=(
        Qos(name="normal"),
        Qos(name="high", priority=10, preempts=("normal",), grp_tres={"gres/gpu": 8}, max_wall_s=3600),
    ),
    accounts=(
        Account(name="physics", shares=3),
        Account(name="quantum", parent="physics", shares_parent=True),
    ),
    users=(User(name="ada", account="physics", qos=("normal", "high")),),
    partitions=(Partition(name="gpu", nodes=("n[1-4]",), default=True, max_time_s=86_400),),
    nodes=(Nodes(names=("n[1-4]",), cpus=64, memory_mib=256_000, gres={"gpu:a100": 4}),),
    reservations=(
        NodeReservation(
            name="maint", start=datetime(2026, 3, 1, tzinfo=UTC), end=datetime(2026, 3, 2, tzinfo=UTC)
        ),
    ),
    ignored=(Ignored(key="TopologyPlugin", value="topology/tree", effect="jobs may start elsewhere"),),
)


def test_a_site_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_site(SITE, tmp_path / "site.toml")
    assert read_site(tmp_path / "site.toml") == SITE
    assert site_from(site_data(SITE), "data") == SITE
    assert "weight_age = 70000  # PriorityWeightAge" in site_text(SITE)


@given(st.text(), st.lists(st.text(), max_size=3), st.floats(0, 1e12))
def test_whatever_names_hold(name: str, features: list[str], age_s: float) -> None:
    site = SiteRules(
        name=name,
        priority=PriorityRules(max_age_s=age_s + 1),
        nodes=(Nodes(names=(name,), features=tuple(features), gres={name: 1}),),
    )
    if any(0xD800 <= ord(char) < 0xE000 for char in name + "".join(features)):
        return
    assert site_from(site_data(site), "data") == site


def test_an_empty_file_is_slurm_by_default(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("")
    assert read_site(tmp_path / "site.toml") == SiteRules()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[priority]\nweight_agee = 3", ("weight_agee", "weight_age")),
        ("[priority]\nweight_age = -3", ("weight_age", "-3")),
        ("[priority]\nweight_age = 3.5", ("weight_age", "3.5")),
        ("[priority]\nweight_age = '3'", ("weight_age", "'3'")),
        ("[priority]\nweight_age = true", ("weight_age", "True")),
        ("[priority]\nmax_age_s = inf", ("max_age_s", "inf")),
        ("[priority]\ntype = 'fancy'", ("type", "fancy", "multifactor")),
        ("[priority]\nfair_tree = 1", ("fair_tree", "1")),
        ("priority = 3", ("priority", "3")),
        ("[qos]\nname = 'high'", ("qos", "[[qos]]")),
        ("[[qos]]\npriority = 3", ("QOS", "name")),
        ("[[qos]]\nname = 'high'\nprempts = ['low']", ("prempts", "preempts")),
        ("[[qos]]\nname = 'high'\nmax_wall_s = -1", ("'high'", "max_wall_s", "-1")),
        ("[[qos]]\nname = 'high'\ngrp_tres = {cpu = 1.5}", ("grp_tres.cpu", "1.5")),
        ("[[partitions]]\nname = 'p'\nnodes = 'n1'", ("'p'", "nodes", "n1")),
        (
            "[[reservations]]\nname='r'\nstart=2026-03-01T00:00:00\nend=2026-03-01T00:00:00Z",
            ("start", "zone"),
        ),
        ("[priority", ("cannot be read",)),
        ("[[qos]]\nname='a'\n[[qos]]\nname='a'", ("QOS", "'a'", "twice")),
        ("[[users]]\nname='u'\naccount='a'\n[[users]]\nname='u'\naccount='a'", ("'u'", "twice")),
        ("[[qos]]\nname='a'\npreempts=['b']", ("'a'", "preempts", "'b'")),
        ("[[qos]]\nname='a'\npreempts=['a']", ("'a'", "preempts itself")),
        (
            "[[qos]]\nname='a'\npreempts=['b']\n[[qos]]\nname='b'\npreempts=['a']",
            ("preempts itself", "'b'"),
        ),
        ("[[accounts]]\nname='a'\nparent='b'", ("'a'", "parent", "'b'")),
        ("[[accounts]]\nname='a'\nparent='a'", ("'a'", "below itself")),
        (
            "[[accounts]]\nname='a'\nparent='b'\n[[accounts]]\nname='b'\nparent='a'",
            ("below itself", "'b'"),
        ),
        ("[[partitions]]\nname='p'\nnodes=['n[1-']", ("'p'", "nodes", "n[1-")),
    ],
)
def test_what_a_site_cannot_say(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(BadInputError) as caught:
        read_site(path)
    for name in (str(path), *names):
        assert name in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"site\.toml"):
        read_site(tmp_path / "site.toml")
