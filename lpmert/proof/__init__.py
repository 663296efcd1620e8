"""What the tree of a certificate rests on, decided in exact arithmetic; for its checker and for its writer."""
