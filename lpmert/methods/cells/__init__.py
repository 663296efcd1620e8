"""Branch and bound over cones of the weight space."""
