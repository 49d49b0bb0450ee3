"""The Update Engine: whether the live release still fits, and what retraining buys (Lucid section 3.6)."""
