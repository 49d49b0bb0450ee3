"""What retraining monthly, weekly or daily buys over a long log (Lucid, section 4.5)."""
