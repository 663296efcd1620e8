"""Numbers without a metric: rational arithmetic, lists of rows, and cones with their linear programs."""
