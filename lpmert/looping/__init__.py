"""The loop of tuning: decode, pool, search, decode again, with any decoder."""
