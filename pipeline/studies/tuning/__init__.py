"""The System Tuner (Lucid section 3.6.1): settings of the Lucid policy, searched by simulation."""
