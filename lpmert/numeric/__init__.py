"""Numbers without a metric: rational and modular arithmetic, cones, least norm and linear programs."""
