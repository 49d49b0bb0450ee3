"""A slurm.conf is read as slurmctld reads it; `tests/slurm/test_site_reading.py` asks a real one the same."""

from pathlib import Path

import pytest

from cluster_logs.host_lists import expand_hosts
from cluster_logs.site.rules import Nodes, Partition, SiteRules
from cluster_logs.slurm_site.reading import SiteReading, read_slurm_files
from foundation.errors import BadInputError, NotFoundError

NODES = "GresTypes=gpu\nNodeName=n[1-4,7] CPUs=8 RealMemory=1000 Gres=gpu:a100:4(S:0-1)\n"
PARTITION = "PartitionName=a Nodes=ALL Default=YES\n"


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str, **files: str) -> SiteReading:
        conf = tmp_path / "slurm.conf"
        conf.write_text("SelectType=select/cons_tres\n" + text)
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / name).write_text(content)
        return read_slurm_files(str(conf))

    return read


def names(lists: tuple[str, ...]) -> list[str]:
    return [name for each in lists for name in expand_hosts(each)]


def partition(rules: SiteRules, name: str) -> Partition:
    return next(each for each in rules.partitions if each.name == name)


def node(rules: SiteRules, name: str) -> Nodes:
    return next(each for each in rules.nodes if name in names(each.names))


def test_a_small_site(read):
    site = read(
        "ClusterName=mini\n"
        "SchedulerParameters=bf_interval=60,BF_Window=4320,bf_continue,bf_max_job_test=1000,max_rpc_cnt=150\n"
        "PriorityType=priority/multifactor\nPriorityWeightAge=1K\nPriorityMaxAge=7-0\n"
        "PriorityWeightTRES=CPU=1000,GRES/gpu:A100=3000\nPriorityFlags=NO_FAIR_TREE,MAX_TRES\n"
        "PreemptType=preempt/qos\nPreemptMode=GANG,REQUEUE\nPreemptExemptTime=00:10:00\n"
        "AccountingStorageEnforce=safe,qos\nOverTimeLimit=5\nMaxJobCount=0x10\n" + NODES + PARTITION
    )
    rules = site.rules
    assert rules.name == "mini"
    scheduler = rules.scheduler
    assert (scheduler.bf_interval_s, scheduler.bf_window_s, scheduler.bf_max_job_test) == (60, 259_200, 1000)
    assert scheduler.bf_continue
    assert (scheduler.enforce_limits, scheduler.enforce_qos) == (True, True)
    assert (scheduler.over_time_limit_s, scheduler.max_jobs) == (300, 16)
    priority = rules.priority
    assert (priority.type, priority.weight_age, priority.max_age_s) == ("multifactor", 1024, 604_800)
    assert priority.weight_tres == {"cpu": 1000, "gres/gpu:a100": 3000}
    assert (priority.fair_tree, priority.max_tres) == (False, True)
    preemption = rules.preemption
    assert (preemption.type, preemption.mode, preemption.exempt_time_s) == ("qos", "requeue", 600)
    assert rules.nodes == (Nodes(names=("n[1-4]", "n7"), cpus=8, memory_mib=1000, gres={"gpu:a100": 4}),)
    assert partition(rules, "a").nodes == ("n[1-4,7]",)
    assert {"PriorityWeightAge", "bf_interval", "PreemptType", "NodeName", "Gres"} <= set(site.modelled)
    left_out = {each.key: each for each in site.ignored}
    assert left_out["max_rpc_cnt"].value == "150"
    assert left_out["PreemptMode: GANG"].effect
    assert left_out["RealMemory"].value == "Nodes n[1-4],n7: 1000"
    assert left_out["PriorityWeightTRES: cpu"].value == "1000"
    assert not left_out.keys() & set(site.modelled)


def test_lines_go_on_and_comments_do_not(read):
    rules = read(
        NODES
        + "PartitionName=a \\\n   Nodes=n1,\\\nn2 Default=YES # no longer \\\n"
        + "# a comment \\\nMaxJobCount = 20\r\n"
        + 'partitionname="b" NODES="n[1-2]" maxtime=1-0 \\'
    ).rules
    assert names(partition(rules, "a").nodes) == names(partition(rules, "b").nodes) == ["n1", "n2"]
    assert partition(rules, "b").max_time_s == 86_400
    assert rules.scheduler.max_jobs == 20


def test_defaults_hold_for_the_lines_below_and_add_up(read):
    rules = read(
        "NodeName=DEFAULT CPUs=4 RealMemory=500\nNodeName=a1\nNodeName=default CPUs=6 Feature=x,y\n"
        "NodeName=a2\nNodeName=a3 CPUs=2\nPartitionName=DEFAULT MaxTime=10 Nodes=ALL\nPartitionName=p\n"
        "PartitionName=Default State=DOWN\nPartitionName=q Nodes=a2,a3 MaxTime=UNLIMITED\n"
    ).rules
    assert [(each, node(rules, each).cpus, node(rules, each).memory_mib) for each in ("a1", "a2", "a3")] == [
        ("a1", 4, 500),
        ("a2", 6, 500),
        ("a3", 2, 500),
    ]
    assert node(rules, "a3").features == ("x", "y")
    p, q = partition(rules, "p"), partition(rules, "q")
    assert (p.max_time_s, p.up, names(p.nodes)) == (600, True, ["a1", "a2", "a3"])
    assert (q.max_time_s, q.up) == (None, False)


def test_files_are_included_beside_the_one_that_includes_them(read):
    rules = read(
        "ClusterName=Mini\nInclude sub/%c.conf\ninclude nodes # all of them\n",
        **{
            "sub/Mini.conf": "Include parts.conf\n",
            "sub/parts.conf": "PartitionName=a Nodes=n1\n",
            "parts.conf": "PartitionName=wrong Nodes=n1\n",
            "nodes": "NodeName=n1 CPUs=2\n",
        },
    ).rules
    assert [each.name for each in rules.partitions] == ["a"]


def test_sets_of_nodes(read):
    rules = read(
        "NodeName=n[1-2] CPUs=2 Feature=v100,big\nNodeName=n3 CPUs=2 Features=a100\nNodeName=n4 CPUs=2\n"
        "NodeSet=volta Feature=v100\nNodeSet=both Feature=v100,big\nNodeSet=mix Feature=a100 Nodes=n1\n"
        "PartitionName=p Nodes=volta\nPartitionName=q Nodes=both\nPartitionName=r Nodes=mix,n4\n"
    ).rules
    found = [names(partition(rules, each).nodes) for each in "pqr"]
    assert found == [["n1", "n2"], [], ["n3", "n1", "n4"]]


def test_nodes_that_are_not_there(read):
    site = read(
        'NodeName=n[1-6] CPUs=2\nNodeName=f1 State=FUTURE\nDownNodes=n[1-2] State=DRAIN Reason="its fan"\n'
        "DownNodes=n3\nDownNodes=n4 State=UNKNOWN\nDownNodes=x9 State=DOWN\nPartitionName=a Nodes=ALL\n"
    )
    up = {name: each.up for each in site.rules.nodes for name in names(each.names)}
    assert up == dict.fromkeys(["n1", "n2", "n3", "f1"], False) | dict.fromkeys(["n4", "n5", "n6"], True)
    assert [each.value for each in site.ignored if each.key == "DownNodes"] == ["x9"]


@pytest.mark.parametrize(
    ("line", "cpus", "memory_mib"),
    [
        ("Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=4000", 64, 4000),
        ("CPUs=32 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2", 32, 1),
        ("CPUs=100 Sockets=2 CoresPerSocket=16", 32, 1),
        ("Boards=2 SocketsPerBoard=2 CoresPerSocket=3 RealMemory=4K", 12, 4096),
        ("Procs=7", 7, 1),
        ("CPUs=16 Sockets=2 CoresPerSocket=8 CoreSpecCount=2 MemSpecLimit=1000 RealMemory=8000", 14, 7000),
        ("Weight=3", 1, 1),
    ],
)
def test_cpus_and_memory(read, line: str, cpus: int, memory_mib: int):
    found = node(read(f"NodeName=n1 {line}\n" + PARTITION).rules, "n1")
    assert (found.cpus, found.memory_mib) == (cpus, memory_mib)


@pytest.mark.parametrize(
    ("gres", "counts"),
    [
        ("gpu:4", {"gpu": 4}),
        ("gpu", {"gpu": 1}),
        ("gpu:a100:2,gpu:v100:2", {"gpu:a100": 2, "gpu:v100": 2}),
        ("gpu:A100:4(S:0-1),gpu:a100:2", {"gpu:a100": 6}),
        ("gpu:3090:4", {"gpu:3090": 4}),
        ("gpu:a100:2,bandwidth:lustre:no_consume:4G", {"gpu:a100": 2, "bandwidth:lustre": 4 * 1024**3}),
        ("GPU:a100:4", {}),
    ],
)
def test_generic_resources(read, gres: str, counts: dict[str, int]):
    rules = read(f"GresTypes=gpu,bandwidth\nNodeName=n1 Gres={gres}\n" + PARTITION).rules
    assert node(rules, "n1").gres == counts


def test_resources_that_no_gres_type_names_are_none(read):
    site = read("NodeName=n1 Gres=gpu:4\n" + PARTITION)
    assert node(site.rules, "n1").gpus == 0
    assert [each.value for each in site.ignored if each.key == "Gres: gpu"] == ["gpu:4"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 3600),
        ("1:30", 120),
        ("01:02:03", 3780),
        ("1-0", 86_400),
        ("1-12:30", 131_400),
        ("1-12:30:15", 131_460),
        ("unlimited", None),
        ("-1", None),
        ("0", 0),
    ],
)
def test_limits(read, text: str, seconds: float | None):
    assert partition(read(NODES + f"PartitionName=a MaxTime={text}\n").rules, "a").max_time_s == seconds


def test_a_default_beyond_the_limit_is_none(read):
    rules = read(NODES + "PartitionName=a MaxTime=60 DefaultTime=1-0\nPartitionName=b DefaultTime=5\n").rules
    assert partition(rules, "a").default_time_s is None
    assert partition(rules, "b").default_time_s == 300


def test_whole_nodes(read):
    text = (
        NODES + "PartitionName=a\nPartitionName=b OverSubscribe=FORCE:2\nPartitionName=c Shared=EXCLUSIVE\n"
    )
    assert [each.over_subscribe for each in read(text).rules.partitions] == ["no", "force", "exclusive"]
    whole = read("SelectType=select/linear\n" + text).rules.partitions
    assert [each.over_subscribe for each in whole] == ["exclusive", "force", "exclusive"]


def test_of_two_the_last_setting_and_the_last_default_hold(read):
    rules = read(
        NODES + "MaxJobCount=100\nmaxjobcount=200\nPartitionName=a Default=YES\nPartitionName=b Default=YES\n"
    ).rules
    assert rules.scheduler.max_jobs == 200
    assert [each.default for each in rules.partitions] == [False, True]


def test_each_key_that_changes_waits_is_told_and_no_other(read):
    site = read(
        "TopologyPlugin=topology/tree\nLicenses=matlab:3\nSlurmctldLogFile=/x\nPrologFlags=Alloc\nTmpFS=/tmp\n"
        "SwitchType=switch/none\nNovelty=3\nSchedulerParameters=bf_new=7,sched_interval=-1,bf_window=-3\n"
        "PriorityType=priority/multifactor\nPriorityWeightFairShare=10\nPriorityWeightTRES=cpu=-5,mem=2\n"
        "NodeName=n1 CPUs=2 TmpDisk=100 Weight=2 NodeAddr=10.0.0.1 Foo=1\n"
        "PartitionName=a Nodes=n1 AllowGroups=staff AllowNodes=ALL Priority=5\n"
        "PartitionName=b AllowGroups=ALL\n"
    )
    left_out = {each.key: (each.value, each.effect) for each in site.ignored}
    assert set(left_out) == {
        *("TopologyPlugin", "Licenses", "Novelty", "bf_new", "sched_interval", "bf_window", "TmpDisk", "Foo"),
        *(
            "AllowGroups",
            "PriorityWeightFairShare",
            "PriorityWeightTRES: cpu",
            "Weight",
            "PriorityWeightTRES: mem",
        ),
    }
    assert left_out["AllowGroups"][0] == "partition a: staff"
    assert all(effect for _, effect in left_out.values())
    assert site.rules.priority.weight_tres == {"mem": 2}
    assert partition(site.rules, "a").priority_tier == partition(site.rules, "a").priority_job_factor == 5


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (NODES + "PartitionName=a Nodes=n1,x9\n", ("line 4", "x9", "'a'")),
        (NODES + "PartitionName=a Nodes=n1,ALL\n", ("line 4", "ALL")),
        (NODES + "PartitionName=a Nodes=n[1-2\n", ("line 4", "n[1-2", "brackets")),
        (NODES + "PartitionName=a Nodes=n[4-1]\n", ("line 4", "4-1", "backwards")),
        (NODES + "NodeName=n[6-8] CPUs=4\n" + PARTITION, ("line 4", "n[6-8]", "n7")),
        (NODES + PARTITION + "PartitionName=a Nodes=n1\n", ("line 5", "PartitionName=a")),
        (NODES + PARTITION + "MaxJobCount=many\n", ("line 5", "MaxJobCount=many")),
        (NODES + PARTITION + "MaxJobCount=1e3\n", ("line 5", "MaxJobCount=1e3")),
        (NODES + PARTITION + "PriorityWeightAge=-1\n", ("line 5", "PriorityWeightAge=-1")),
        (NODES + PARTITION + "PriorityMaxAge=1d\n", ("line 5", "PriorityMaxAge=1d")),
        (NODES + PARTITION + "PriorityFavorSmall=maybe\n", ("line 5", "maybe")),
        (NODES + PARTITION + "PriorityType=priority/mine\n", ("line 5", "priority/mine", "multifactor")),
        (NODES + PARTITION + "PriorityWeightTRES=foo=3\n", ("line 5", "foo=3")),
        (NODES + PARTITION + "SchedulerParameters=bf_interval=soon\n", ("line 5", "bf_interval=soon")),
        (NODES + PARTITION + "SchedulerParameters=defer, bf_continue=1\n", ("line 5", "bf_continue=1")),
        (NODES + PARTITION + "AccountingStorageEnforce=some\n", ("line 5", "some")),
        (NODES + PARTITION + "MailDomain=\n", ("line 5", "MailDomain=")),
        (NODES + PARTITION + "  Include x.conf\n", ("line 5", "Include x.conf")),
        (NODES + PARTITION + "Include gone.conf\n", ("line 5", "gone.conf")),
        (NODES + PARTITION + "Include slurm.conf\n", ("slurm.conf", "itself")),
        (NODES + "PartitionName=a MaxTime=soon\n", ("line 4", "MaxTime=soon")),
        (NODES + "PartitionName=a PreemptMode=gently\n", ("line 4", "gently")),
        ("NodeName=n1 CPUs=eight\n" + PARTITION, ("line 2", "CPUs=eight")),
        ("NodeName=n1 CPUs=4 State=TIRED\n" + PARTITION, ("line 2", "TIRED")),
        ("MaxJobCount=4\nPartitionName=a\n", ("declares no node",)),
        (NODES, ("declares no partition",)),
    ],
)
def test_what_contradicts_names_file_line_and_value(read, tmp_path: Path, line: str, told: tuple[str, ...]):
    with pytest.raises(BadInputError) as caught:
        read(line)
    for words in (str(tmp_path / "slurm.conf"), *told):
        assert words in str(caught.value)


def test_no_file(tmp_path: Path):
    with pytest.raises(NotFoundError, match=r"slurm\.conf"):
        read_slurm_files(str(tmp_path / "slurm.conf"))
