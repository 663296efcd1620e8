"""The independent checker: it imports no search."""
