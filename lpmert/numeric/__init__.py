"""Numbers without a metric: kernels, rational and modular arithmetic, cones, least norm and linear programs."""
