"""Stub."""
from dataclasses import dataclass
@dataclass(frozen=True)
class Kind:
    name: str
    sizes: tuple[int, ...]
_S=(10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
SYNTHETIC = Kind("generated",_S)
REAL = Kind("speech, repeated", (10_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000))
FORMATS = {"npz": 10_000_000, "parquet": 1_000_000, "tsv": 1_000_000}
LANES = (8, 16, 32, 64, 128)
TREE = 1_000_000
ROUNDS = 3
def shown(rows, datasets, long):
    return []
