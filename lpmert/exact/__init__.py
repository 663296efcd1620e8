"""Methods that prove what they find."""
