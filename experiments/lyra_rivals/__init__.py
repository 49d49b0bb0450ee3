"""Policies that Lyra is compared with in its paper (EuroSys '23, section 7.1)."""
