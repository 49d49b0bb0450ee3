"""The format inference-load, which tests/cluster_logs/test_readers_conformance.py reads beside all others."""

EXPECTED = {
    "inference-load": (
        13,
        4,
        {
            "implausible_usage": 2,
            "missing_time": 1,
            "missing_usage": 1,
            "negative_count": 1,
            "no_value": 1,
            "unreadable_number": 3,
        },
    ),
}
