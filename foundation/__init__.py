"""Files, locks, bounded HTTP, errors and progress.

What every package stands on; it knows nothing of clusters.
"""
