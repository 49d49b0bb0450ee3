"""What a comparison of errors says in words."""

from lucid_models.evaluation.measures import Row


def verdict(row: Row) -> str:
    """What `compared` says of a rival: "ours better", "ours worse", "level" (may be chance), "" unknown."""
    worse_by, low, high = (row.get(f"worse_by{end}") for end in ("", "_low", "_high"))
    if worse_by is None or low is None or high is None or row.get("model") == "ebm":
        return ""
    if low <= 0 <= high:
        return "level"
    return "ours better" if low > 0 else "ours worse"
