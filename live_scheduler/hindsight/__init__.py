"""Looking back: what was decided, what came of it, and what another order would have been worth."""
