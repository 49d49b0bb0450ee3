"""How far the waits of a replay are those of the log: figures, a grade A to D, and what explains the rest."""
