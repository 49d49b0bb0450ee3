"""Lyra's evaluation (EuroSys '23) beside what public data gives."""
