"""The Throughput Predict Model: how much will be submitted (Lucid section 3.5.2)."""
