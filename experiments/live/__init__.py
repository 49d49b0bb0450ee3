"""What the live scheduler forecasts, and what can be set: pages of docs."""
