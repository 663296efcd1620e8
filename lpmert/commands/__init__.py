"""Commands with modules of their own, imported when they are called."""
