"""Branch and bound over selections."""
