"""Idle nodes of a live cluster sleep, and wake before jobs need them (Helios, SC '21, section 4.3)."""
