"""Methods that prove nothing: those that lpmert is compared with."""
