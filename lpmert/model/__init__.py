"""Lists, metric and region; their canonical form; and the loss of weights."""
