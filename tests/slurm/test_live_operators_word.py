"""On a real Slurm, what an operator sets after the live scheduler stands: at passes and ways back."""

from collections.abc import Iterator, Mapping

import pytest

from live_scheduler.live_settings import HandsOff
from live_scheduler.safety.operators_word import WordsOnRecord
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.control import PRIORITIES
from tests.evidence import Evidence
from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import NAME, LiveCluster
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow

KINDS = {
    "basic": {"PriorityType": "priority/basic"},
    "multifactor": {
        "PriorityType": "priority/multifactor",
        "PriorityWeightJobSize": "10000",
        "PriorityWeightAge": "1000000",
        "PriorityMaxAge": "0-01:00",
        "PriorityCalcPeriod": "1",
    },
}


@pytest.fixture(scope="module", params=list(KINDS))
def one_slurm(request: pytest.FixtureRequest) -> Iterator[PrivateSlurm]:
    with private_slurm(
        nodes=(Node("n1"), Node("n2")),
        partitions=(Partition("vc1", ("n1",)), Partition("vc2", ("n2",))),
        **KINDS[request.param],
    ) as slurm:
        yield slurm


@pytest.fixture
def live_settings() -> str:
    return "advise_interval_s = 0.5\n"


@pytest.fixture
def cluster(cluster: LiveCluster) -> LiveCluster:
    cluster.keep_release()
    return cluster


class Operator:
    """Sets things by hand, and knows what stands."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster

    def update(self, job: str, *words: str) -> None:
        self.cluster.slurm.run("scontrol", "update", f"JobId={job}", *words)

    def comment_on(self, job: str, words: str) -> None:
        """Write a comment again where a text was on its way meanwhile, as a person would."""
        self.cluster.wait(lambda: self._commented(job, words), "the comment stands")

    def _commented(self, job: str, words: str) -> bool:
        if self.comment(job) != words:
            self.update(job, f"Comment={words}")
            return False
        return job in WordsOnRecord(self.cluster.state)

    def tell(self, verb: str, job: str) -> None:
        self.cluster.slurm.run("scontrol", verb, job)

    def comment(self, job: str) -> str:
        return self.cluster.queue("%i %k")[job]

    def facts(self, *jobs: str) -> Mapping[str, str]:
        """Priority and nice value of jobs."""
        known = self.cluster.queue("%i %Q %y", "--array")
        return {job: known[job] for job in jobs}

    def begins(self, job: str) -> str:
        return self.cluster.slurm.run("squeue", "-h", f"-j{job}", "--Format=EligibleTime:0").strip()

    def passes_go_by(self) -> None:
        late = self.cluster.submit("train_u0")
        self.cluster.wait(lambda: late in self.cluster.ranked(), "passes go by")

    def wait_words(self, jobs: set[str]) -> None:
        self.cluster.wait(lambda: jobs <= set(WordsOnRecord(self.cluster.state)), f"words on {jobs}")


@pytest.mark.evidence(table="faults", rows=("31", "37"))
def test_what_an_operator_sets_stands_at_passes_and_after_each_way_back(
    cluster: LiveCluster, evidence: Evidence
) -> None:
    operator = Operator(cluster)
    cluster.block()
    fills = ("--parsable", "-o/dev/null", "-pvc2", "--gres=gpu:4", "--wrap=sleep 600")
    second_block = cluster.slurm.run("sbatch", *fills).strip()
    cluster.wait(lambda: cluster.queue("%i %t")[second_block] == "R", "vc2 is full, too")
    named = {what: cluster.submit("train_u3") for what in ("priority", "among", "held", "comment", "begin")}
    named |= {"nice": cluster.submit("train_u3"), "array": cluster.submit("train_u3", "--array=0-3")}
    named |= {what: cluster.submit("train_u3", "--partition=vc2") for what in ("first", "second", "third")}
    cluster.started()
    ranked = set(named.values()) - {named["array"]}
    cluster.wait(lambda: ranked <= cluster.ranked(), "all are ranked")
    cluster.wait(lambda: "lucid:" in operator.comment(named["comment"]), "it is advised")

    operator.update(named["priority"], "Priority=4711")
    operator.update(named["among"], f"Priority={PRIORITIES.most - 5}")
    operator.update(f"{named['array']}_2", "Priority=99")
    operator.update(named["begin"], "StartTime=now+1hour")
    operator.comment_on(named["comment"], "mine")
    # Slurm ignores a nice value beside a number that was set, and does not say so: release the job first.
    operator.update(named["nice"], "Nice=70")
    assert operator.facts(named["nice"])[named["nice"]].split()[1] == "0"
    lines = f"release {named['nice']}\nupdate JobId={named['nice']} Nice=70\n"
    cluster.slurm.run("scontrol", input_text=lines)
    operator.tell("hold", named["held"])
    operator.tell("top", named["third"])
    set_by_hand = [named[what] for what in ("priority", "among", "third")] + [f"{named['array']}_2"]
    stands = operator.facts(*set_by_hand)
    begins = operator.begins(named["begin"])

    def assert_stands() -> None:
        assert operator.facts(*set_by_hand) == stands
        assert operator.comment(named["comment"]) == "mine"
        assert operator.begins(named["begin"]) == begins
        assert cluster.priorities()[named["held"]] == 0
        assert operator.facts(named["nice"])[named["nice"]].split()[1] == "70"
        assert named["nice"] not in cluster.ranked()

    words = {*set_by_hand, named["nice"], named["comment"]}
    operator.wait_words(words)
    operator.passes_go_by()
    assert_stands()
    assert cluster.lucid("live", "restore", f"--cluster={NAME}").returncode == 0
    assert_stands()
    kept = {named["among"], named["third"]}
    assert cluster.ranked() == kept
    # The next daemon knows of it, and the switch after it.
    daemon = cluster.started()
    cluster.wait(lambda: cluster.ranked() > kept, "it ranks")
    operator.passes_go_by()
    assert_stands()
    assert set(WordsOnRecord(cluster.state)) == words
    daemon.kill()
    cluster.wait(lambda: cluster.ranked() == kept, "the switch gives back")
    assert_stands()
    cluster.wait(cluster.quiet, "the switch ends")
    assert_stands()
    evidence(
        "faults",
        "31",
        "The job stays where `scontrol top` put it, the switch gives back all others, says so and ends.",
    )
    # Whoever is released is ranked again.
    cluster.started()
    operator.passes_go_by()
    for what in ("held", "priority", "third"):
        operator.tell("release", named[what])
    back = {named["held"], named["priority"], named["third"]}
    cluster.wait(lambda: back <= cluster.ranked(), "what is released is ranked", limit_s=60.0)
    cluster.wait(lambda: not back & set(WordsOnRecord(cluster.state)), "words go")
    evidence(
        "faults",
        "37",
        "A priority, a nice value, `scontrol top`, a hold, a begin time and a comment stand at later passes,"
        " after `lucid live restore`, under the next daemon and after the switch; `scontrol release` hands a"
        " job back.",
    )


def test_whom_the_settings_name_is_left_alone_and_so_are_reservations(cluster: LiveCluster) -> None:
    operator, slurm = Operator(cluster), cluster.slurm
    block = cluster.block()
    slurm.run(
        *("scontrol", "create", "reservation", "ReservationName=lab", "StartTime=now", "Duration=60"),
        *("Nodes=n2", "Users=root", "Flags=ignore_jobs"),
    )
    try:
        there = ["-pvc2", "--gres=gpu:4", "--reservation=lab"]
        slurm.run("sbatch", "-o/dev/null", *there, "--wrap=sleep 600")
        cluster.wait(lambda: slurm.run("squeue", "-h", "-Rlab", "-tR"), "the reservation is used")
        options = {
            "reservation": "--reservation=lab --partition=vc2",
            "user": "--uid=nobody",
            "account": "--account=chem",
            "partition": "--partition=vc2",
            "job": "--comment=mine",
        }
        jobs = {what: cluster.submit("train_u3", *words.split()) for what, words in options.items()}
        plain = cluster.submit("train_u3")
        own = cluster.priorities()
        # All but the reservation's are ranked until the settings name them.
        cluster.started()
        named = set(jobs.values()) - {jobs["reservation"]}
        cluster.wait(lambda: cluster.ranked() == {*named, plain}, "all are ranked")
        cluster.wait(lambda: "lucid:" in operator.comment(jobs["job"]), "it is advised")
        cluster.end_processes()
        with (cluster.folder / "live.toml").open("a") as settings:
            settings.write(
                f'[hands_off]\nusers = ["nobody"]\naccounts = ["Chem"]\njobs = ["{jobs["job"]}"]\n'
                'partitions = ["vc2"]\n'
            )
        cluster.start()
        cluster.wait(lambda: cluster.ranked() == {plain}, "what stood of ours on them is given back")
        operator.passes_go_by()
        after = cluster.priorities()
        if slurm.settings["PriorityType"] == "priority/basic":
            assert {job: after[job] for job in jobs.values()} == {job: own[job] for job in jobs.values()}
        assert "lucid:" not in "".join(operator.comment(job) for job in jobs.values())
        assert operator.comment(jobs["job"]) == "mine"
    finally:
        cluster.end_processes()
        slurm.run("scancel", block, *cluster.submitted)
        slurm.run("scancel", "--reservation=lab")
        cluster.wait(lambda: not slurm.run("squeue", "-h", "-Rlab"), "the reservation is free")
        slurm.run("scontrol", "delete", "ReservationName=lab")


def test_a_quality_of_service_and_an_account_are_known_by_name(accounted: PrivateSlurm) -> None:
    accounted.run("sacctmgr", "--immediate", "add", "account", "Chem")
    accounted.run("sacctmgr", "--immediate", "add", "qos", "Urgent")
    accounted.run("sacctmgr", "--immediate", "add", "user", "root", "account=chem", "qos=urgent,normal")
    words = ("--parsable", "-o/dev/null", "--hold", "--account=chem", "--qos=urgent", "--wrap=true")
    job_id = accounted.run("sbatch", *words).strip()
    job = SlurmAdapter().read().by_id[job_id]
    assert HandsOff(qos=("Urgent",)).why(job) == "hands_off names its QOS urgent"
    assert HandsOff(accounts=("Chem",)).why(job) == "hands_off names its account chem"
    assert HandsOff(qos=("normal",), accounts=("root",)).why(job) == ""
