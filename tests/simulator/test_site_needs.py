"""A log without users, accounts, QOS or limits says what of a declared site it cannot replay."""

from dataclasses import replace

from cluster_logs.site.rules import Nodes, Partition, PriorityRules, Qos, SchedulerRules, SiteRules
from simulator.site_order import lacking, site_order
from simulator.workload.job import Job
from simulator.workload.workload import Workload

JOB = Job("1", "gpu", "ada", 4, 0.0, 60.0, time_limit_s=60.0, account="physics", qos="high")
SITE = SiteRules(
    priority=PriorityRules(type="multifactor", weight_fair_share=10, weight_qos=5),
    scheduler=SchedulerRules(),
    qos=(Qos(name="normal"), Qos(name="high")),
    partitions=(Partition(name="gpu"),),
)


def test_a_log_that_has_all() -> None:
    bare = replace(JOB, user=None, account=None, qos=None, time_limit_s=None)
    assert lacking([bare, JOB], SITE) == ()


def test_each_that_no_job_has_is_said() -> None:
    for field, word in [
        ("user", "users"),
        ("account", "accounts"),
        ("qos", "QOS"),
        ("time_limit_s", "limits"),
    ]:
        (said,) = lacking([replace(JOB, **{field: None})], SITE)
        assert word in said


def test_what_the_site_does_not_go_by_is_not_missed() -> None:
    bare = replace(JOB, user=None, account=None, qos=None)
    assert lacking([bare], SiteRules(qos=SITE.qos)) == ()


def test_virtual_clusters_that_are_no_partition() -> None:
    (said,) = lacking([replace(JOB, virtual_cluster=f"vc{number}") for number in range(5)], SITE)
    assert "vc0, vc1, vc2 and 2 more" in said


def test_the_sites_order_tells_what_it_leaves_out_and_what_the_log_lacks() -> None:
    site = replace(SITE, nodes=(Nodes(names=("n1",), features=("big",)),))
    order = site_order(Workload((replace(JOB, user=None),), {}), site)
    assert [said.split(" ")[0] for said in order.not_modelled] == ["Features", "The"]
