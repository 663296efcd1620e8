"""Methods that find good weights and prove nothing, or less than the exact ones."""
