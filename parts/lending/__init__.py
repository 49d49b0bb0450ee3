"""Servers on loan: inference's idle servers lent to training (Lyra)."""
