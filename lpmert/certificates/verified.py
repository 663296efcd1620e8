"""What a certificate proves, once it is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from lpmert.certificates.format import Header


@dataclass(frozen=True)
class Verified:
    """What a certificate proves.

    Decoding with the `weights` loses `loss`, without ties; no weights decode without ties to less than `bound`, or none
    that have a positive product with every one of the `limits`, the product 0 with every one of the `equations` and at
    least the `cosine` with the weights `around`, if there are any.
    Both are exact, but for BLEU, which is compared exactly and given to the nearest multiple of 2**-64. Weights are
    those near the ones given that fulfil the equations: each of these sets the last weight that it can. `records`
    counts the parts of the tree.
    """

    claim: Header
    records: int

    @property
    def loss(self) -> Fraction:
        """What decoding with the weights loses."""
        return self.claim.loss

    @property
    def bound(self) -> Fraction:
        """What no weights undercut."""
        return self.claim.bound

    @property
    def weights(self) -> dict[str, float]:
        """The weights by name."""
        return self.claim.weights

    @property
    def limits(self) -> tuple[dict[str, float], ...]:
        """The limits, each with a number by name."""
        return tuple(dict(zip(self.weights, row, strict=True)) for row in self.claim.limits)

    @property
    def equations(self) -> tuple[dict[str, Fraction], ...]:
        """The equations, each with a number by name."""
        return tuple(dict(zip(self.weights, row, strict=True)) for row in self.claim.equations)

    @property
    def cosine(self) -> Fraction | None:
        """The least cosine with the weights `around`, if there is one."""
        return self.claim.cosine or None

    @property
    def around(self) -> dict[str, float] | None:
        """The weights by name around which the cosine holds, if there is one."""
        return dict(zip(self.weights, self.claim.around, strict=True)) if self.claim.cosine else None

    @property
    def proved(self) -> bool:
        """Whether the loss is the least one."""
        return self.bound == self.loss

    def __str__(self) -> str:
        """Return one sentence."""
        parts = ((len(self.limits), "limits"), (len(self.equations), "equations"))
        named = [f"{count} {what}" for count, what in parts if count]
        named += [f"a cosine of {float(self.cosine):g}"] if self.cosine else []
        within = f" within {' and '.join(named)}" if named else ""
        least = "is the least" if self.proved else f"is at most {float(self.loss - self.bound):.10g} above the least"
        return (
            f"certificate holds: loss {float(self.loss):.10g} {least}{within} "
            f"({self.claim.metric}, ties: {self.claim.ties}; {self.records} records)"
        )
