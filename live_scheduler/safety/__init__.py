"""Why it cannot hurt: checks of readings and decisions, limits, a record of changes, heartbeat, restore."""
