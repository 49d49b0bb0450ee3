"""What answers people and other schedulers: HTTP, gRPC and metrics over one schema."""
