"""The report of a cluster's log: Helios' figures, tables and implications, and more, on a page."""
