"""What answers people and other schedulers: HTTP and metrics over one schema."""
