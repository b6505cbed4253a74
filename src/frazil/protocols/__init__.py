"""How a branch moves: one commit protocol a generation, behind one interface."""
