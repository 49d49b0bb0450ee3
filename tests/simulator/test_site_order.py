"""What a cluster follows today: as declared, else EASY by limits, else EASY by Tsafrir's estimates."""

from cluster_logs.site.rules import SiteRules
from cluster_logs.site.stored_site import FIRST_IN_FIRST_OUT
from simulator.policies.registry import load_policy
from simulator.site_order import site_order
from simulator.workload.job import Job
from simulator.workload.workload import Workload

WITHOUT_LIMITS = Workload((Job("a", "vc", None, 1, 0.0, 60.0),), {})


def test_a_log_without_limits_is_backfilled_by_tsafrirs_estimates() -> None:
    order = site_order(WITHOUT_LIMITS)
    assert (order.policy, order.believes_limits) == ("tsafrir_easy", False)
    assert order.words == "EASY backfilling by Tsafrir's estimates"


def test_a_log_with_limits_is_backfilled_by_them() -> None:
    limited = Workload((Job("a", "vc", None, 1, 0.0, 60.0, time_limit_s=90.0),), {})
    assert site_order(limited).words == "EASY backfilling by time limits"
    assert site_order(limited).policy == "easy"


def test_first_in_first_out_is_the_sites_order_only_where_it_is_declared() -> None:
    assert site_order(WITHOUT_LIMITS, FIRST_IN_FIRST_OUT).words == "first in, first out, as declared"


def test_what_a_site_declares_is_its_order() -> None:
    order = site_order(WITHOUT_LIMITS, SiteRules(name="mini"))
    assert (order.policy, order.words) == ("site", "Slurm's schedulers as declared")
    load_policy(order.policy, order.settings)
