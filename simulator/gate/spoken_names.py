"""What the gate's sentences call figures, constraints, policies and rivals."""

from simulator.gate.rules import SITE_ORDER
from simulator.gate.verdict import GRADE, PRICE, PROVING_WINDOW

_SPOKEN = {
    "mean_jct_s": "mean JCT",
    "mean_queuing_delay_s": "mean queuing delay",
    "p99_queuing_delay_s": "P99 queuing delay",
    "p999_queuing_delay_s": "P99.9 queuing delay",
    "p999_queuing_delay": "P99.9 queuing delay",
    "mean_pred_err_pct": "mean prediction error",
    "p50_pred_err_pct": "median prediction error",
    "p90_pred_err_pct": "P90 prediction error",
    "p99_pred_err_pct": "P99 prediction error",
    PRICE: "its price in mean JCT",
    PROVING_WINDOW: "a window in which next to nothing queues",
    GRADE: "the grade of the replayed waits",
    "champion": "the champion",
    SITE_ORDER: "the site's order",
    "fifo": "FIFO",
    "sjf": "SJF",
    "qssf": "QSSF",
    "tiresias": "Tiresias",
    "tsafrir": "Tsafrir's estimate",
}


def spoken(name: str) -> str:
    """Return a name as sentences have it; any other without its underscores."""
    return _SPOKEN.get(name, name.replace("_", " "))
