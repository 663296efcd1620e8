"""What the operating system gives a call: time, memory, signals and files."""
