"""The trace-driven simulator, its policies, and the gate that judges a release."""
