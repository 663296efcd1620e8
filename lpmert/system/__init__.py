"""What surrounds a call: its clock, signals, files and quoting."""
