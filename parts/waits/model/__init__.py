"""The Wait Model: when a waiting job will start, learned from the queue itself."""
