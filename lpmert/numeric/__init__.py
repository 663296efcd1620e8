"""Numbers without a metric: rational arithmetic, cones, least norm and linear programs."""
