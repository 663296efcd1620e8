"""The contract of a method, the driver of all searches, first incumbents, polish and report."""
