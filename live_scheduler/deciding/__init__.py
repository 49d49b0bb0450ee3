"""What is decided, and how: the simulator's policies on a live cluster, and the order as priorities."""
