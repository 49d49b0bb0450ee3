"""Why it cannot hurt: doubts, limits, the record of what was touched, heartbeat, the way back."""
