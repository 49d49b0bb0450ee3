"""What a site.toml says and no replay follows is told, each key once, with its effect on waits."""

from datetime import UTC, datetime

from cluster_logs.site.left_out import left_out
from cluster_logs.site.rules import (
    NodeReservation,
    Nodes,
    Partition,
    PriorityRules,
    Qos,
    SchedulerRules,
    SiteRules,
)


def test_nothing_is_left_out_of_what_slurm_does_by_default() -> None:
    plain = SiteRules(
        qos=(Qos(name="normal", priority=3, grp_tres={"gres/gpu": 8, "node": 2}),),
        partitions=(Partition(name="a", nodes=("n[1-4]",), max_time_s=60),),
        nodes=(Nodes(names=("n[1-4]",), cpus=8, gres={"gpu": 4}),),
    )
    assert left_out(plain) == ()


def test_a_line_a_key_names_the_tables_that_say_it() -> None:
    day = datetime(2030, 1, 1, tzinfo=UTC)
    site = SiteRules(
        priority=PriorityRules(weight_tres={"cpu": 10, "gres/gpu": 5}),
        scheduler=SchedulerRules(complete_wait_s=7),
        qos=tuple(Qos(name=f"q{number}", max_wall_s=60) for number in range(7)),
        partitions=(Partition(name="a", up=False), Partition(name="b", over_subscribe="exclusive")),
        nodes=(Nodes(names=("n1", "n[3-4]"), gres={"gpu:a100": 4, "shard": 8}, features=("x", "y")),),
        reservations=(NodeReservation(name="r", start=day, end=day, nodes=("n1",)),),
    )
    told = {each.key: each.value for each in left_out(site)}
    assert told == {
        "PriorityWeightTRES: cpu": "10",
        "CompleteWait": "7",
        "MaxWall": "QOS q0: 60; QOS q1: 60; QOS q2: 60; QOS q3: 60; QOS q4: 60; and 2 more",
        "State": "Partition a: no",
        "OverSubscribe": "Partition b: exclusive",
        "Gres: type": "Nodes n1,n[3-4]: gpu:a100=4",
        "Features": "Nodes n1,n[3-4]: x,y",
        "StartTime": "Reservation r: 2030-01-01 00:00:00+00:00",
        "EndTime": "Reservation r: 2030-01-01 00:00:00+00:00",
        "Nodes": "Reservation r: n1",
    }
    assert all(each.effect for each in left_out(site))
