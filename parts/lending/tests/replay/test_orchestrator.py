"""How many inference servers are on loan."""

import pytest

from parts.lending.replay.orchestrator import servers_of_use, servers_to_lend, share_of_servers
from parts.lending.replay.settings import LoanSettings


def lent(usage: float, on_loan: int = 0, servers: int = 50, **settings: float) -> int:
    return servers_to_lend(
        servers,
        share_of_servers(usage, servers),
        on_loan,
        LoanSettings(**settings),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("usage", "servers", "expected"),
    [(0.4, 50, 29), (0.42, 50, 28), (0.55, 50, 21), (0.97, 50, 0), (1.0, 50, 0), (0.5, 4, 1), (0.51, 4, 0)],
)
def test_all_but_need_and_headroom_is_lent(usage: float, servers: int, expected: int) -> None:
    for on_loan in (0, expected, servers):
        assert lent(usage, on_loan, servers) == expected


def test_a_band_between_lending_and_reclaiming() -> None:
    assert lent(0.4, 0, hysteresis_servers=3) == 26  # three of the 29 are kept back
    assert lent(0.46, 26, hysteresis_servers=3) == 26  # exactly used up
    assert lent(0.48, 26, hysteresis_servers=3) == 25
    assert lent(0.42, 26, hysteresis_servers=3) == 26


def test_nothing_is_lent_for_a_while_after_a_reclaim() -> None:
    settings = LoanSettings(hold_s=900)
    assert servers_to_lend(50, 20, 10, settings, since_reclaim_s=600) == 10
    assert servers_to_lend(50, 20, 10, settings, since_reclaim_s=900) == 29
    assert servers_to_lend(50, 45, 10, settings, since_reclaim_s=0) == 4


def test_no_more_is_lent_than_jobs_can_use() -> None:
    settings = LoanSettings(lend="demand")
    of_use = servers_of_use(servers_in_use=3, free_gpus=4, wanted_gpus=13, gpus_per_server=8)
    assert servers_to_lend(50, 20, 10, settings, of_use=of_use) == 5
    assert servers_to_lend(50, 46, 10, settings, of_use=of_use) == 3
    assert servers_to_lend(50, 20, 10, settings, of_use=servers_of_use(3, 12, 4, 8)) == 3
