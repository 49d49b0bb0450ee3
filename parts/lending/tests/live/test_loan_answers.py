"""Loans and reclaims for any scheduler: a state in, what to do and why out."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live_scheduler.client import ReleaseClient
from live_scheduler.live_settings import Mode
from parts.lending.live.giving_back import LoanRecord
from parts.lending.live.lender import NodeLender
from parts.lending.live.loan_messages import MAX_SERVERS, LoanAnswer
from parts.lending.live.settings import NodeLoanSettings
from parts.lending.live.usage import InferenceUsage
from parts.lending.tests.live.memory_loans import MemoryLoans, PlainLease
from tests.live_scheduler.live_answers import NOW_S, STATE, Live, problem

FIGURE_5 = {"s1": {"a": 8}, "s2": {"a": 8}, "s3": {"b": 8}, "s4": {"c": 8}, "s5": {"c": 2, "d": 2}}
QUERY: dict[str, Any] = {
    "servers": [
        *({"name": name, "gpus": 8, "on_loan": True, "base": base} for name, base in FIGURE_5.items()),
        {"name": "s6", "gpus": 8, "on_loan": True, "flexible": {"a": 4}},
        {"name": "s7", "gpus": 8, "busy": True},
        {"name": "s8", "gpus": 8, "away": True},
    ],
    "usage": 0.55,
    "untouchable_jobs": ["b"],
    "rules": {"headroom": 0.0},
}


def asked(live: Live, **changed: Any) -> LoanAnswer:
    answer = live.post("/v1/loans", json.dumps(QUERY | changed))
    assert answer.status_code == 200, answer.text
    return LoanAnswer.model_validate_json(answer.content)


def test_a_state_is_answered_in_order_and_with_reasons(standing: Live) -> None:
    told = asked(standing)
    assert (told.servers, told.needed, told.target, told.on_loan) == (7, 4, 3, 6)
    assert (told.take_back, told.preempts) == (("s6", "s1", "s2"), ("a",))
    assert (told.scales_in, told.short, told.collateral_gpus) == ((), 0, 0)
    assert told.sentences[0].startswith("Inference uses 55.0% of 7 servers and needs 4; a headroom of 0")
    assert told.release == "the product's own rules"
    assert asked(standing) == told, "nothing is remembered"
    everything = asked(standing, needed=7)
    assert (everything.short, set(everything.preempts)) == (1, {"a", "c", "d"})
    assert asked(standing, needed=0).lend == ()  # the only other one is busy
    free = [{"name": "i2", "gpus": 8}, {"name": "i10", "gpus": 8}]
    assert asked(standing, servers=free, usage=0.0, rules={"most_lent": 1, "headroom": 0.0}).lend == ("i2",)


ONE = [{"name": "i1", "gpus": 8}]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"usage": 1.2}, "body.usage is 1.2"),
        ({"usage": None}, "how many servers inference needs"),
        ({"recent_usage": [0.5]}, "without last_bin_start_s"),
        ({"servers": ONE * 2}, "server 'i1' is given 2 times"),
        ({"servers": [{"name": "i1", "gpus": 4, "base": {"a": 5}}]}, "5 of 4 GPUs of server 'i1'"),
        ({"servers": [{"name": f"i{n}", "gpus": 8} for n in range(MAX_SERVERS + 1)]}, "at most 2000 items"),
        ({"servers": [{"name": "i1", "gpus": 8, "lent": True}]}, "lent is not a field"),
        ({"rules": {"reclaim": "luck"}}, "luck"),
        ({"rules": {"lend": "demand"}}, "demand of the training jobs"),
        ({"rules": {"exact_limit_s": 3600}}, "less than or equal to 5"),
        ({"rules": {"headroom": -0.1}}, "headroom is -0.1"),
    ],
)
def test_what_cannot_be_used_is_named(standing: Live, changed: dict[str, Any], words: str) -> None:
    answer = standing.post("/v1/loans", json.dumps(QUERY | changed))
    assert answer.status_code in (404, 422)
    told = problem(answer)
    assert words in told.detail
    assert told.remedy


@pytest.fixture
def lending(lucid: Any, tmp_path: Path, client: ReleaseClient) -> Iterator[Live]:
    """A daemon that lends four of eight nodes, its state where `lucid` looks for it."""
    found = Live(tmp_path / ".lucid" / "live" / "small", client)
    settings = NodeLoanSettings(Mode.CONTROL, rules={"headroom": 0.125, "period_s": 60})
    usage = InferenceUsage(settings, found.folder, lambda: 0.3)
    loans = MemoryLoans.of(8)
    safety = PlainLease(LoanRecord(found.folder))
    found.daemon.part_stages["loans"] = NodeLender(loans, settings, usage, safety)
    with found:
        found.see(STATE)
        loans.jobs["<b>job</b>"] = ({"i1": 8}, True)
        found.see(replace(STATE, at_s=NOW_S + 90.0))
        yield found


def test_status_metrics_and_the_command_say_what_is_on_loan_and_why(lending: Live, lucid: Any) -> None:
    seen = lending.get("/v1/status").json()["loans"]
    assert [each["node"] for each in seen["on_loan"]] == ["i1", "i2", "i3", "i4"]
    assert seen["on_loan"][0]["jobs"] == ["<b>job</b>"]
    assert "needs 3; a headroom of 1" in seen["on_loan"][0]["why"]
    metrics = lending.get("/metrics").text
    for line in (
        "lucid_live_loaned_servers 4.0",
        "lucid_live_inference_servers_needed 3.0",
        "lucid_live_inference_usage_ratio 0.3",
        "lucid_live_servers_lent_total 4.0",
        "lucid_live_loan_problem 0.0",
    ):
        assert line in metrics
    told = lucid("live", "loans")
    assert told.code == 0, told.err
    for part in ("inference to onloan, control: 4 of 8 on loan, 3 needed", "<b>job</b>", "i4"):
        assert part in told.out
    assert "4 of 8 on loan" in lucid("live", "status").out


def test_the_command_answers_for_a_state_in_a_file(lending: Live, lucid: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps(QUERY))
    assert lucid("live", "loans", str(path), "--json").json["take_back"] == ["s6", "s1", "s2"]
    assert "s1: preempts job a." in lucid("live", "loans", str(path)).out
    path.write_text('{"servers": [], "usage": "much"}')
    wrong = lucid("live", "loans", str(path))
    assert wrong.code != 0
    assert "usage is 'much'" in " ".join(wrong.err.split())


def test_where_nothing_is_lent_the_command_says_what_to_do(
    lucid: Any, tmp_path: Path, client: ReleaseClient
) -> None:
    with Live(tmp_path / ".lucid" / "live" / "small", client) as live:
        live.see(STATE)
        told = lucid("live", "loans")
    assert told.code != 0
    assert "[loans]" in told.err
