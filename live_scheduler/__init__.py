"""What runs beside a live scheduler: the release client, the queue ranking."""
