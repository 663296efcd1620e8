"""LP-MERT as published, with its beam."""
