"""One page about results."""
