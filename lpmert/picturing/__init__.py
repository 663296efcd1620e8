"""What pictures show, as plain numbers: error surfaces, profiles, changed lists, close decisions."""
