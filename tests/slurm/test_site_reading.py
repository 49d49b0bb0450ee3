"""What we read of a slurm.conf is what a real slurmctld makes of it, and a live Slurm tells the same."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_logs.host_lists import expand_hosts
from cluster_logs.site.rules import SiteRules
from cluster_logs.site.site_file import read_site
from cluster_logs.slurm_site.reading import SacctmgrAnswers, read_slurm_files, site_of
from cluster_logs.slurm_site.scontrol_answers import CONFIG, NODES, PARTITIONS, declared_by_scontrol
from foundation.errors import BadInputError
from pipeline.ingest.site_reading import read_live_site, read_site_files
from tests.slurm.conftest import private_slurm, skip_without_slurm
from tests.slurm.lone_controller import what_slurm_makes_of
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

CLOUD = "SelectType=select/cons_tres\nGresTypes=gpu\nNodeName=DEFAULT State=CLOUD\n"
ONE = "NodeName=n[1-4,7] CPUs=8 RealMemory=1000 Gres=gpu:a100:4(S:0-1) Feature=a,b Weight=3\n"
ALL = "PartitionName=a Nodes=ALL Default=YES\n"
READ = {
    "settings": ONE
    + ALL
    + "SchedulerParameters=bf_interval=60,BF_Window=4320,bf_continue,bf_resolution=300,defer\n"
    + "PriorityType=priority/multifactor\nPriorityMaxAge=1-12\nPriorityDecayHalfLife=14-0\n"
    + "PriorityFavorSmall=yes\nPriorityCalcPeriod=1:30\nPriorityFlags=DEPTH_OBLIVIOUS,MAX_TRES\n"
    + "PriorityWeightJobSize=010\nPriorityWeightQOS=0x10\nPriorityWeightPartition=1k\n"
    + "PriorityWeightTRES=CPU=1000,Mem=0.5\nMaxJobCount=5K\nKillWait=60\nOverTimeLimit=UNLIMITED\n"
    + "CompleteWait=7\nPreemptType=preempt/partition_prio\nPreemptMode=requeue,gang\nPreemptExemptTime=10\n",
    "defaults": "NodeName=DEFAULT CPUs=4 RealMemory=500\nNodeName=a1\nNodeName=DEFAULT CPUs=6 Weight=2\n"
    "NodeName=a2\nNodeName=a3 CPUs=2\nPartitionName=DEFAULT MaxTime=10 MinNodes=2\nPartitionName=p Nodes=a1\n"
    "PartitionName=default State=DOWN\nPartitionName=q Nodes=a2,a3 MaxTime=UNLIMITED MaxNodes=3\n",
    "ranges": "NodeName=n[01-10] CPUs=2\nNodeName=r[0-1]n[1-2] CPUs=3\nNodeName=x[1-2],y,z[08-11,3] CPUs=1\n"
    "PartitionName=p Nodes=n[03-05],r0n1,r1n[1-2],y,,z08\nPartitionName=q Nodes=ALL\n",
    "sets": "NodeName=n[1-2] CPUs=2 Feature=v,big\nNodeName=n[3-4] CPUs=2 Features=a\nNodeSet=v Feature=v\n"
    "NodeSet=none Feature=v,big\nNodeSet=mix Feature=a Nodes=n1\nNodeSet=v Nodes=n4\n"
    "PartitionName=p Nodes=v\nPartitionName=q Nodes=none\nPartitionName=r Nodes=mix,n2\n",
    "sockets": "NodeName=n1 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2\nNodeName=n2 CPUs=100 Sockets=2 "
    "CoresPerSocket=16\nNodeName=n3 Boards=2 SocketsPerBoard=2 CoresPerSocket=3\nNodeName=n4 Procs=7\n"
    "NodeName=n5 CPUs=9 CoresPerSocket=4\n" + ALL,
    "partitions": ONE + "PartitionName=a Nodes=n1 MaxTime=1:30 DefaultTime=1 Priority=7 GraceTime=120\n"
    "PartitionName=b Nodes=n1 MaxTime=60 DefaultTime=1-0 OverSubscribe=FORCE:2 PriorityTier=3 Default=YES\n"
    "PartitionName=c Nodes=n[1-2] Shared=EXCLUSIVE AllowAccounts=x,y DenyQos=low State=DRAIN Default=YES\n"
    'PartitionName="d" AllowQos=all MaxNodes=INFINITE TRESBillingWeights="CPU=1.0,Mem=0.25G"\n',
    "text": ONE.replace("NodeName", "nodename")
    + "PartitionName = a \\\n  Nodes=n1,\\\nn2 Default=YES # no \\\n"
    "# nothing \\\nMaxJobCount = 30\nmaxjobcount=40\\\n\nInclude sub/more.conf # and more\r\n",
}
FILES = {
    "sub/more.conf": "PartitionName=b Nodes=n2\nInclude rest.conf\n",
    "sub/rest.conf": "PartitionName=c Nodes=n3\n",
    "rest.conf": "PartitionName=wrong Nodes=n4\n",
}
REFUSED = {
    "unknown node": ONE + "PartitionName=a Nodes=n1,x9\n",
    "all among others": ONE + "PartitionName=a Nodes=n1,ALL\n",
    "open bracket": ONE + "PartitionName=a Nodes=n[1-2\n",
    "backwards": ONE + "PartitionName=a Nodes=n[2-1]\n",
    "node twice": ONE + "NodeName=n7 CPUs=4\n" + ALL,
    "partition twice": ONE + ALL + ALL,
    "no number": ONE + ALL + "MaxJobCount=many\n",
    "octal": ONE + ALL + "MaxJobCount=08\n",
    "negative": ONE + ALL + "PriorityWeightAge=-1\n",
    "no time": ONE + ALL + "PriorityType=priority/multifactor\nPriorityMaxAge=1d\n",
    "no switch": ONE + ALL + "PriorityFavorSmall=maybe\n",
    "no limit": ONE + "PartitionName=a Nodes=n1 MaxTime=soon\n",
    "no mode": ONE + "PartitionName=a Nodes=n1 PreemptMode=gently\n",
    "no cores": "NodeName=n1 CPUs=eight\n" + ALL,
    "no weight": ONE + ALL + "PriorityType=priority/multifactor\nPriorityWeightTRES=foo=3\n",
    "a space in a list": ONE + ALL + "SchedulerParameters=defer, bf_continue\n",
    "nothing": ONE + ALL + "MailDomain=\n",
    "an include that does not begin its line": ONE + ALL + "  Include rest.conf\n",
    "no node": ALL,
    "no partition": ONE,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    skip_without_slurm()
    return tmp_path


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_it_is_read_as_slurm_reads_it(folder: Path, text: str) -> None:
    told = what_slurm_makes_of(folder, CLOUD + text, (CONFIG, NODES, PARTITIONS), FILES)
    assert told is not None
    live = site_of(declared_by_scontrol(*told), SacctmgrAnswers(), "scontrol", tells_all=True).rules
    ours = read_slurm_files(str(folder / "slurm.conf")).rules
    assert plainly(ours) == plainly(live)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_slurm_refuses_is_refused(folder: Path, text: str) -> None:
    assert what_slurm_makes_of(folder, CLOUD + text, (), FILES) is None
    with pytest.raises(BadInputError):
        read_slurm_files(str(folder / "slurm.conf"))


@pytest.fixture(scope="module")
def accounted_site() -> Iterator[PrivateSlurm]:
    settings = {
        "PriorityType": "priority/multifactor",
        "PriorityWeightAge": "1000",
        "PriorityWeightFairshare": "5000",
        "PriorityWeightTRES": "cpu=10,GRES/gpu=300",
        "AccountingStorageEnforce": "limits,qos",
        "AccountingStorageTRES": "gres/gpu",
        "PreemptType": "preempt/qos",
        "PreemptMode": "REQUEUE",
        "Licenses": "matlab:3",
    }
    with private_slurm(
        nodes=(Node("n1"), Node("n2", gpus=2)),
        partitions=(Partition("vc1", ("n1",), 60), Partition("vc2", ("n1", "n2"), options="PriorityTier=5")),
        accounting=True,
        **settings,
    ) as slurm:
        for words in (
            "add qos low",
            "add qos high",
            "modify qos high set priority=1000 preempt=low,normal GrpTRES=gres/gpu=8 MaxWall=1-0 MaxJobsPU=3",
            "add account science Fairshare=3",
            "add account phys parent=science fairshare=2 MaxJobs=5 GrpTRES=gres/gpu=6",
            "add account bio parent=science fairshare=parent",
            "add user ada account=bio",
            "add user ada account=phys partition=vc1 MaxTRES=cpu=4",
            "add user alan account=phys qos=normal,high defaultqos=high",
        ):
            slurm.run("sacctmgr", "--immediate", *words.split())
        kept = "starttime=2030-01-01T00:00:00 endtime=2030-01-02T00:00:00 nodes=n2 users=root flags=maint"
        slurm.run("scontrol", "create", "reservation", "ReservationName=kept", *kept.split())
        yield slurm


def test_a_live_slurm_tells_what_its_files_do(
    accounted_site: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in accounted_site.environment().items():
        if name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("TZ", "America/New_York")
    live = read_live_site(tmp_path / "live.toml")
    assert read_site(tmp_path / "live.toml") == live.rules
    (kept,) = live.rules.reservations
    assert (kept.name, kept.nodes, kept.users) == ("kept", ("n2",), ("root",))
    assert (kept.end - kept.start).total_seconds() == 86_400

    assoc, qos = tmp_path / "assoc.txt", tmp_path / "qos.txt"
    assoc.write_text(accounted_site.run("sacctmgr", "-p", "-n", "show", "assoc", "tree"))
    qos.write_text(accounted_site.run("sacctmgr", "-P", "show", "qos"))
    ours = read_site_files(tmp_path / "site.toml", str(accounted_site.conf), str(assoc), str(qos))
    assert plainly(ours.rules) == plainly(live.rules)
    assert {each.name: each.parent for each in ours.rules.accounts}["phys"] == "science"
    assert {"Licenses"} <= {each.key for each in ours.ignored} & {each.key for each in live.ignored}


def plainly(rules: SiteRules) -> dict[str, object]:
    """A site by the names of its nodes, without what only one way to read it can tell."""
    nodes = {
        name: dataclasses.replace(each, names=(name,))
        for each in rules.nodes
        for listed in each.names
        for name in expand_hosts(listed)
    }
    partitions = {
        each.name: (
            sorted({name for listed in each.nodes for name in expand_hosts(listed)}),
            dataclasses.replace(each, nodes=()),
        )
        for each in rules.partitions
    }
    of_name = {kind: getattr(rules, kind) for kind in ("name", "priority", "scheduler", "preemption")}
    return of_name | {
        "nodes": nodes,
        "partitions": partitions,
        "qos": rules.qos,
        "accounts": rules.accounts,
        "users": rules.users,
    }
