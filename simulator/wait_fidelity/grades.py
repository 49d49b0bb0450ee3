"""The grades of a replay, best first; apart from their rule, so that forms of rules are light to import."""

GRADES = ("A", "B", "C", "D")
