"""What the daemon knows of the past: what happens between readings, the journal, online statistics."""
