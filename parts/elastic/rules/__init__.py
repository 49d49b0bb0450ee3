"""Rules of allocation: PCS' weighted fair queuing and its rivals."""
