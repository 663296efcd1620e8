"""Lists, region and metric, brought to canonical form, and what weights cost on them."""
