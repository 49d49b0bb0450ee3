"""Nodes are lent while inference does not need them, and come back whatever happens in between."""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError, ServiceUnavailableError
from live_scheduler.live_settings import Mode
from live_scheduler.release import Pinned
from parts.lending.live.giving_back import LOANS_FILE, LoanRecord, LoanStep, give_back
from parts.lending.live.lender import NodeLender
from parts.lending.live.node_loans import Side
from parts.lending.live.settings import NodeLoanSettings
from parts.lending.live.usage import InferenceUsage
from parts.lending.replay.forecast import BIN_S
from parts.lending.tests.live.memory_loans import BrokenOffError, MemoryLoans, PlainLease

PERIOD_S = 60.0
NO_RELEASE = Pinned()


class Stand:
    """A lender over nodes in memory, whose usage tests set."""

    def __init__(
        self, folder: Path, loans: MemoryLoans, mode: Mode = Mode.CONTROL, **settings: object
    ) -> None:
        self.folder, self.loans, self.usage = folder, loans, 1.0
        self.now_s = 1_800_000_000.0
        given_settings = {"rules": {"period_s": PERIOD_S, "headroom": 0.0}, "usage_every_s": 1.0} | settings
        self.settings = NodeLoanSettings(mode=mode, **given_settings)  # type: ignore[arg-type]
        self.start()

    def start(self) -> None:
        """A daemon that has just started, with the record that it finds."""
        self.lease = PlainLease(LoanRecord(self.folder))
        usage = InferenceUsage(self.settings, self.folder, self.read_usage)
        self.lender = NodeLender(self.loans, self.settings, usage, self.lease, clock=lambda: self.now_s)

    def read_usage(self) -> float:
        if self.usage < 0:
            raise ServiceUnavailableError("Nobody answers.")
        return self.usage

    def pass_by(self, usage: float, release: Pinned = NO_RELEASE, looks: int = 1) -> None:
        """Look once at the next decision, with this usage."""
        self.usage = usage
        self.now_s += PERIOD_S
        for _ in range(looks):
            self.lender.look(self.now_s, release)

    @property
    def on_loan(self) -> list[str]:
        return self.loans.those(Side.BORROWER)


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path, MemoryLoans.of(8))


def test_what_inference_does_not_need_is_lent_and_comes_back(stand: Stand) -> None:
    stand.loans.serving |= {"i1", "i3"}
    stand.pass_by(0.5)
    assert stand.on_loan == ["i2", "i4", "i5", "i6"]
    stand.loans.jobs = {"a": ({"i2": 8, "i4": 8}, True), "b": ({"i5": 8}, True)}
    stand.pass_by(0.75)
    assert (stand.on_loan, stand.loans.requeued) == (["i2", "i4"], ["b"])  # i6 is empty, b has one node
    view = stand.lender.view
    assert (view.lent, view.preempted, view.needed, view.target) == (4, 1, 6, 2)
    assert [(each.node, each.jobs) for each in view.on_loan if not each.returning] == [
        ("i2", ("a",)),
        ("i4", ("a",)),
    ]
    stand.pass_by(1.0, looks=2)
    assert (stand.on_loan, stand.loans.requeued) == ([], ["b", "a"])
    stand.pass_by(1.0)
    assert (len(stand.lease.loan_record), stand.lender.view.taken_back) == (0, 4)


def test_jobs_that_must_stay_keep_their_node_and_limits_hold(tmp_path: Path) -> None:
    stand = Stand(tmp_path, MemoryLoans.of(8), least_kept=3, most_lent=4)
    stand.loans.down.add("i1")
    stand.pass_by(0.0)
    assert stand.on_loan == ["i2", "i3", "i4", "i5"]
    stand.loans.jobs = {"stays": ({"i2": 1}, False), "goes": ({"i3": 1}, True)}
    stand.pass_by(1.0, looks=2)
    assert (stand.on_loan, stand.lender.view.short) == (["i2"], 1)
    assert "may not be preempted" in " ".join(stand.lender.view.reasons)
    # A job of that kind that starts while its node is taken back is left alone too.
    del stand.loans.jobs["stays"]
    stand.loans.starts_on_leaving["i2"] = "quick"
    stand.pass_by(1.0)
    assert stand.on_loan == ["i2"]
    assert stand.loans.requeued == ["goes"]


def test_a_node_that_inference_took_first_and_one_that_fails_go_home(stand: Stand) -> None:
    stand.loans.starts_on_leaving["i1"] = "service"
    stand.pass_by(0.75)
    assert stand.on_loan == ["i2"]
    assert stand.loans.sides["i1"] == {Side.LENDER}
    stand.loans.down.add("i2")
    stand.pass_by(0.75, looks=2)
    assert stand.loans.sides["i2"] == {Side.LENDER}


def test_the_rate_limit_puts_off(tmp_path: Path) -> None:
    stand = Stand(tmp_path, MemoryLoans.of(8), nodes_per_minute=2)
    stand.pass_by(0.5)
    assert (stand.on_loan, stand.lender.view.deferred) == (["i1", "i2"], 2)
    stand.pass_by(0.5)
    assert stand.on_loan == ["i1", "i2", "i3", "i4"]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_below_control_it_only_says(tmp_path: Path, mode: Mode, caplog: pytest.LogCaptureFixture) -> None:
    stand = Stand(tmp_path, MemoryLoans.of(4), mode)
    with caplog.at_level(logging.INFO, "lucid.live"):
        stand.pass_by(0.5)
    assert "would lend 2 nodes (i1, i2)" in caplog.text
    assert stand.on_loan == []
    assert not (tmp_path / LOANS_FILE).exists()


def test_a_lost_usage_holds_and_then_brings_all_home(tmp_path: Path) -> None:
    stand = Stand(tmp_path, MemoryLoans.of(4), usage_lost_after_s=2.5 * PERIOD_S)
    stand.pass_by(0.5)
    for _ in range(2):
        stand.pass_by(-1.0)
        assert stand.on_loan == ["i1", "i2"]
        assert "stays so" in str(stand.lender.view.problem)
    stand.pass_by(-1.0, looks=2)
    assert stand.on_loan == []
    assert "every node is taken back" in str(stand.lender.view.problem)


def test_a_forecast_above_the_usage_counts(stand: Stand) -> None:
    class Rising:
        def forecast(self, usage: object, last_bin_start_s: float) -> "Rising":
            return self

        mean = 0.5
        quantiles = {0.5: 0.5, 0.9: 0.75, 1.0: 0.95}  # noqa: RUF012

    release = Pinned(Rising(), {"quantile": 0.9, "headroom": 0.125})
    stand.pass_by(0.5, release)
    assert len(stand.on_loan) == 4  # no bin is finished yet; the settings go before the release's
    stand.now_s += BIN_S
    stand.pass_by(0.5, release, looks=2)
    assert len(stand.on_loan) == 2
    assert (stand.lender.view.forecast, stand.lender.view.needed) == (0.75, 6)
    assert "quantile 0.9" in stand.lender.view.rule


def lending(stand: Stand) -> None:
    stand.pass_by(0.25)


def reclaiming(stand: Stand) -> None:
    stand.pass_by(1.0)


@pytest.mark.parametrize("does", [lending, reclaiming])
@given(killed_at=st.integers(0, 14), comes_back=st.booleans())
def test_killed_anywhere_inference_has_its_servers(
    tmp_path_factory: pytest.TempPathFactory, does: Callable[[Stand], None], killed_at: int, comes_back: bool
) -> None:
    loans = MemoryLoans.of(4)
    stand = Stand(tmp_path_factory.mktemp("state"), loans)
    if does is reclaiming:
        lending(stand)
        loans.jobs = {"a": ({"i1": 8, "i2": 8}, True), "b": ({"i3": 8}, True)}
    loans.breaks_at = loans.calls + killed_at
    with suppress(BrokenOffError):
        does(stand)
    loans.breaks_at = None
    assert all(len(sides) < 2 for sides in loans.sides.values())
    if comes_back:
        stand.start()
        stand.pass_by(1.0, looks=3)
        stand.pass_by(1.0, looks=2)
    else:  # the switch, look by look
        for _ in range(2):
            give_back(loans, LoanRecord(stand.folder))
    assert loans.those(Side.LENDER) == ["i1", "i2", "i3", "i4"]
    assert not loans.jobs
    assert not len(LoanRecord(stand.folder))


def test_the_way_back_leaves_what_must_stay_and_nodes_of_others(tmp_path: Path) -> None:
    loans = MemoryLoans.of(4)
    loans.sides |= {"i1": {Side.BORROWER}, "i2": {Side.BORROWER}, "own": {Side.BORROWER}}
    loans.jobs = {"a": ({"i1": 8}, False), "b": ({"own": 8}, True), "c": ({"i2": 8, "own": 4}, True)}
    record = LoanRecord(tmp_path)
    record.note(["i1", "i2", "gone"], LoanStep.LENT, 1.0, "")
    with (tmp_path / LOANS_FILE).open("a") as stream:
        stream.write('{"node": "i3", "how": "sold", "at_s": 1, "why": ""}\n{"node": "i4", "how": "le')
    done = give_back(loans, record)
    assert (done.back, done.requeued, done.staying) == (("i1", "gone"), ("c",), ("a",))
    assert give_back(loans, record).back == ("i2",)
    assert loans.those(Side.BORROWER) == ["own"]
    assert list(loans.jobs) == ["a", "b"]
    assert give_back(loans, record).describe() == "no node was on loan"


def test_a_daemon_that_came_back_stops_the_switch(tmp_path: Path) -> None:
    record = LoanRecord(tmp_path)
    record.note(["i1"], LoanStep.LENT, 1.0, "")
    loans = MemoryLoans({"i1": {Side.BORROWER}})
    assert give_back(loans, record, go_on=lambda: False).coming == ("i1",)
    assert loans.calls == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lender": "a b"}, "lender is 'a b'"),
        ({"lender": "--all"}, "lender is '--all'"),
        ({"borrower": "inference"}, "are both 'inference'"),
        ({"usage_file": "/u", "usage_command": ("u",)}, "usage_command and usage_file are given"),
        ({"usage_url": "http://127.0.0.1:9090"}, "usage_query ''"),
        ({"rules": {"headroom": 2}}, "headroom is 2"),
        ({"least_kept": -1}, "least_kept is -1"),
        ({"nodes_per_minute": 0}, "nodes_per_minute is 0"),
        ({"usage_lost_after_s": 0.0}, "usage_lost_after_s is 0.0"),
    ],
)
def test_settings_that_no_cluster_can_be_run_with(settings: dict[str, object], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        NodeLoanSettings(**settings)  # type: ignore[arg-type]
