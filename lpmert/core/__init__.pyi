"""What is hot, compiled from C++.

Arrays are C-contiguous, with the dtype and the shape that is stated; `ValueError` names the argument that is not.
Throughout: M hypotheses in S lists, whose rows begin and end at offsets [S + 1], int64; D features.
"""

from lpmert.errors import FloatArray

def combine(transposed: FloatArray, weights: FloatArray, scores: FloatArray) -> None:
    """Write weights [D] times transposed [D, M] into scores [M]."""
