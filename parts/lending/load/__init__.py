"""The load of inference servers: the lake's table, and how files and Prometheus fill it."""
