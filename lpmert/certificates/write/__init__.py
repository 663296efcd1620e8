"""Writers of certificates."""
