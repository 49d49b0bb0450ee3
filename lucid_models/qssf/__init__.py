"""QSSF's estimate of run times (Helios, SC '21): a user's similar past jobs, mixed with boosted trees."""
