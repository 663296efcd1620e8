"""The search over all paths of lattices."""
