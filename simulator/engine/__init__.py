"""The event-driven engine: events in order, the lifecycle of jobs, and the nodes that they run on."""
