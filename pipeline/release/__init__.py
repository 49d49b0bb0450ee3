"""A release between the gate and the scheduler: its settings, its verdict, which one is current."""
