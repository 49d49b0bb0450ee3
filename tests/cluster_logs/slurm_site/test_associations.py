"""Associations and QOS are read in whatever form sacctmgr prints them with | between columns."""

from pathlib import Path

import pytest

from cluster_logs.site.rules import Account, Qos, User
from cluster_logs.slurm_site.associations import read_associations, read_qos
from cluster_logs.slurm_site.key_account import KeyAccount
from cluster_logs.slurm_site.reading import read_slurm_files
from foundation.errors import BadInputError

# What Slurm 22.05.8 printed.
TREE = """\
Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|GrpSubmit|GrpWall|GrpTRESMins|MaxJobs|MaxTRES|\
MaxTRESPerNode|MaxSubmit|MaxWall|MaxTRESMins|QOS|Def QOS|GrpTRESRunMins
private|root|||1|||||||||||||normal||
private| root|root||1|||||||||||||normal||
private| science|||3|||||||||||||normal||
private|  bio|||parent|||||||||||||normal||
private|   bio|ada||1|||||||||||||normal||
private|  phys|||2|||gres/gpu=6||||5||||12:00:00||normal||
private|   phys|ada|vc1|1|9|3|||||1|cpu=4||4|12:00:00||normal||
private|   phys|alan||1|||||||5||||12:00:00||high,normal|high|cpu=33
"""
QOS = """\
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRES|GrpTRESMins|\
GrpTRESRunMins|GrpJobs|GrpSubmit|GrpWall|MaxTRES|MaxTRESPerNode|MaxTRESMins|MaxWall|MaxTRESPU|MaxJobsPU|\
MaxSubmitPU|MaxTRESPA|MaxJobsPA|MaxSubmitPA|MinTRES
normal|0|00:00:00|||cluster|||1.000000|||||||||||||||||
high|1000|00:01:00|normal|00:10:00|requeue|DenyOnLimit,OverPartQOS||2.500000|cpu=100,gres/gpu=8,mem=250G|cpu=1000||\
9|10|01:40:00||||1-00:00:00|gres/gpu=4|3|7|cpu=8|5|6|gres/gpu=1
"""
ACCOUNTS = (
    Account(name="root", qos=("normal",)),
    Account(name="science", shares=3, qos=("normal",)),
    Account(name="bio", parent="science", shares_parent=True, qos=("normal",)),
    Account(
        name="phys",
        parent="science",
        shares=2,
        grp_tres={"gres/gpu": 6},
        max_jobs=5,
        max_wall_s=43_200,
        qos=("normal",),
    ),
)
USERS = (
    User(name="root", account="root", qos=("normal",)),
    User(name="ada", account="bio", qos=("normal",)),
    User(
        name="ada",
        account="phys",
        partition="vc1",
        default_account=False,
        priority=9,
        grp_jobs=3,
        max_jobs=1,
        max_tres_per_job={"cpu": 4},
        max_submit_jobs=4,
        max_wall_s=43_200,
        qos=("normal",),
    ),
    User(
        name="alan",
        account="phys",
        max_jobs=5,
        max_wall_s=43_200,
        qos=("high", "normal"),
        default_qos="high",
    ),
)


def associations(text: str, cluster: str = "", account: KeyAccount | None = None):
    return read_associations(text, "assoc.txt", cluster, account or KeyAccount())


def without_header(text: str) -> str:
    return text.partition("\n")[2]


def with_bars_behind(text: str) -> str:
    return "".join(f"{line}|\n" for line in text.splitlines())


def columns_turned_round(text: str) -> str:
    return "".join("|".join(reversed(line.split("|"))) + "\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "form", [str, without_header, with_bars_behind, columns_turned_round, lambda text: "\n" + text + "\n\n"]
)
def test_a_tree(form):
    account = KeyAccount()
    assert associations(form(TREE), account=account) == (ACCOUNTS, USERS)
    assert {"Share", "GrpTRES", "ParentName"} <= set(account.modelled_keys())
    assert [(each.key, each.value) for each in account.ignored_keys()] == [
        ("GrpTRESRunMins", "user alan of phys: cpu=33")
    ]


def test_without_a_tree_all_accounts_are_below_root_and_that_is_told():
    account = KeyAccount()
    accounts, users = associations(
        TREE.replace("| ", "|").replace("| ", "|").replace("| ", "|"), account=account
    )
    assert users == USERS
    assert {each.parent for each in accounts} == {"root"}
    assert "ParentName" in [each.key for each in account.ignored_keys()]


def test_a_column_names_the_parent():
    accounts, _ = associations(
        "Account|ParentName|User|Share\nroot|||1\nscience|root||3\nbio|science||parent\nbio||ada|2\n"
    )
    assert [each.parent for each in accounts] == ["root", "root", "science"]


def test_the_cluster_of_the_configuration():
    both = TREE + "".join(
        line.replace("private", "other") + "\n" for line in TREE.splitlines()[1:] if "phys" not in line
    )
    assert associations(both, "Private") == (ACCOUNTS, USERS)
    assert len(associations(both, "other")[1]) == 2
    with pytest.raises(BadInputError, match="other, private"):
        associations(both, "third")


def test_qualities_of_service():
    account = KeyAccount()
    assert read_qos(QOS, "qos.txt", account) == read_qos(with_bars_behind(QOS), "qos.txt", account)
    assert read_qos(without_header(QOS), "qos.txt", account) == (
        Qos(name="normal"),
        Qos(
            name="high",
            priority=1000,
            usage_factor=2.5,
            preempts=("normal",),
            preempt_mode="requeue",
            exempt_time_s=600,
            grace_time_s=60,
            grp_jobs=9,
            grp_submit_jobs=10,
            grp_tres={"cpu": 100, "gres/gpu": 8, "mem": 256_000},
            max_wall_s=86_400,
            max_tres_per_user={"gres/gpu": 4},
            max_jobs_per_user=3,
            max_submit_jobs_per_user=7,
            max_tres_per_account={"cpu": 8},
            max_jobs_per_account=5,
            max_submit_jobs_per_account=6,
            flags=("DenyOnLimit", "OverPartQOS"),
        ),
    )
    assert {each.key: each.value for each in account.ignored_keys()} == {
        "GrpTRESMins": "QOS high: cpu=1000",
        "GrpWall": "QOS high: 01:40:00",
        "MinTRES": "QOS high: gres/gpu=1",
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "sacctmgr -P show assoc tree"),
        ("   Cluster    Account\n---------- ----------\n", "sacctmgr -P show assoc tree"),
        (TREE.replace("||1|||", "||1||", 1), "line 2"),
        (TREE.replace("   phys|ada", "   fys|ada"), "line 8"),
        (TREE.replace("12:00:00", "soon", 1), "line 7: maxwall=soon"),
        (TREE.replace("gres/gpu=6", "gres/gpu=six"), "line 7: grptres=gres/gpu=six"),
        (TREE.replace("|3|||", "|some|||", 1), "line 4: share=some"),
        (TREE + "private|  phys|||2|||||||||||||normal||\n", "line 10"),
        (TREE + "private|  phys|alan||2|||||||||||||normal||\n", "line 10"),
        (TREE + "private||x||2|||||||||||||normal||\n", "line 10"),
    ],
)
def test_what_is_no_table_of_associations(text: str, told: str):
    with pytest.raises(BadInputError) as caught:
        associations(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (QOS + QOS.splitlines()[1] + "\n", "line 4"),
        (QOS.replace("|normal|00:10", "|usual|00:10"), "'usual'"),
        (QOS.replace("|requeue|", "|gently|"), "line 3: preemptmode=gently"),
        (QOS.replace("2.500000", "twice"), "line 3: usagefactor=twice"),
    ],
)
def test_what_is_no_table_of_qos(text: str, told: str):
    with pytest.raises(BadInputError) as caught:
        read_qos(text, "qos.txt", KeyAccount())
    assert told in str(caught.value)


def test_all_of_a_site(tmp_path: Path):
    conf, assoc, qos = (tmp_path / name for name in ("slurm.conf", "assoc.txt", "qos.txt"))
    conf.write_text(
        "ClusterName=private\nSelectType=select/cons_tres\nPriorityType=priority/multifactor\n"
        "PriorityWeightFairshare=10\nPriorityWeightQOS=10\nNodeName=n1\nPartitionName=a Nodes=n1 QOS=high\n"
    )
    assoc.write_text(TREE)
    qos.write_text(QOS)
    site = read_slurm_files(str(conf), str(assoc), str(qos))
    assert (len(site.rules.users), len(site.rules.qos), site.rules.partitions[0].qos) == (4, 2, "high")
    left_out = {each.key for each in read_slurm_files(str(conf)).ignored}
    assert {"PriorityWeightFairshare", "PriorityWeightQOS"} <= left_out
    assert not left_out & {each.key for each in site.ignored}
    qos.write_text("\n".join(line for line in QOS.splitlines() if not line.startswith("high")))
    with pytest.raises(BadInputError, match=r"slurm\.conf, line 7: QOS=high"):
        read_slurm_files(str(conf), str(assoc), str(qos))
    conf.write_text(conf.read_text().replace("QOS=high", ""))
    with pytest.raises(BadInputError, match=r"'alan'.*'high'"):
        read_slurm_files(str(conf), str(assoc), str(qos))


def test_columns_of_before_tres():
    _, (user,) = associations(
        "Account|User|Share|GrpCPUs|GrpNodes|MaxCPUs|MaxNodes\nroot||1||||\nroot|ada|1|64|2|8|1\n"
    )
    assert user.grp_tres == {"cpu": 64, "node": 2}
    assert user.max_tres_per_job == {"cpu": 8, "node": 1}
