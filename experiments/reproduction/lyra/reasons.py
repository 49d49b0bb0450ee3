"""Why a published number has none of ours beside it."""

from experiments.reproduction.lyra.published import RowKey

TESTBED = "measured on the authors' testbed, whose 180 jobs are not public"
_BY_TABLE = {
    "Fig 2": "ByteDance's cluster itself, of which nothing is public",
    "6": "the mean squared error on ByteDance's own series, which is smoother; ours on public series: "
    "`lucid evaluate inference`",
    "7.2": TESTBED,
    "7.5": TESTBED,
}
_NOT_REPLAYED = "not among the replays of this run (--quick)"


def reason(key: RowKey) -> str:
    """Return why a number was not measured."""
    table = key[0]
    if table.startswith("Table 10"):
        return TESTBED
    if table == "7.2" and not key[3].startswith(("simulator", "p95", "mean queue")):
        return _NOT_REPLAYED
    return _BY_TABLE.get(table, _NOT_REPLAYED)
