"""The cluster of a replay: its nodes, what happens to them, and where jobs are placed on them."""
