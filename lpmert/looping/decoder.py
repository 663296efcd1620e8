"""What a decoder is to the loop: weights in, N-best lists and its own outputs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lpmert.errors import DecoderError
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted
from lpmert.values import are_texts_by_name


@dataclass(frozen=True, eq=False)
class Decoded:
    """What a decoder made of its inputs with certain weights.

    Parameters
    ----------
    lists : NBest
        The N-best lists, each in the decoder's order, with texts or with statistics.
    own : mapping from str to str, optional
        The output that the decoder would show, by list. It may belong to lists that are not among `lists`, because the
        decoder had no alternatives there. Without it, the first hypothesis of each list is the decoder's output.
    """

    lists: NBest
    own: Mapping[str, str] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """What was decoded."""
        return self.lists.list_ids if self.own is None else tuple(self.own)


class Decoder(Protocol):
    """A decoder, as `lpmert.loop` calls it; it always decodes the same inputs."""

    def decode(self, weights: Mapping[str, float], n: int) -> Decoded:
        """Return at most about `n` hypotheses of each input, and the decoder's own outputs.

        Raises `DecoderError`; the loop then ends, and can be resumed.
        """


def check_decoder(decoder: object, what: str) -> None:
    """Raise `DecoderError` for what cannot decode; what: the argument."""
    if isinstance(decoder, type | bytes | bytearray) or not callable(getattr(decoder, "decode", None)):
        raise DecoderError(
            f"{what} must be an object with a method decode, such as an lpmert.Worker or an lpmert.Command, not "
            f"{quoted(decoder)}"
        )


def checked(decoded: object, names: Sequence[str], ids: Sequence[str] | None) -> Decoded:
    """Return what was decoded, with the features in the order of `names`.

    ids: what was decoded the first time. Raises `DecoderError` for what is not `Decoded`, and where features or lists
    are missing or new.
    """
    if not isinstance(decoded, Decoded):
        raise DecoderError(f"decode must return an lpmert.Decoded, not {quoted(decoded)}")
    if not isinstance(decoded.lists, NBest):
        raise DecoderError(f"the lists of an lpmert.Decoded must be an lpmert.NBest, not {quoted(decoded.lists)}")
    if decoded.own is not None and not are_texts_by_name(decoded.own):
        raise DecoderError(
            f"own of an lpmert.Decoded must be texts by the names of lists, or None, not {quoted(decoded.own)}"
        )
    lists = decoded.lists
    if {*lists.names} != {*names}:
        raise DecoderError(
            f"the weights are for {listed(names)}, but the decoder's lists have the features {listed(lists.names)}"
        )
    if lists.names != tuple(names):
        lists = lists.select_features(names)
    if decoded.own is not None:
        if lists.texts is None:
            raise DecoderError("the decoder's own outputs are texts, but its lists have none; read them with texts")
        stray = [one for one in lists.list_ids if one not in decoded.own]
        if stray:
            raise DecoderError(f"list {quoted(stray[0])} is not among the decoder's own outputs")
    if ids is not None and {*decoded.ids} != {*ids}:
        missing, new = [[*dict.fromkeys(one)] for one in (_without(ids, decoded.ids), _without(decoded.ids, ids))]
        faults = [f"{what} {listed(found)}" for what, found in (("lacks", missing), ("has the new", new)) if found]
        raise DecoderError(f"the decoder's output {' and '.join(faults)}; it must decode the same inputs every time")
    return Decoded(lists, decoded.own)


def _without(some: Sequence[str], others: Sequence[str]) -> list[str]:
    known = {*others}
    return [one for one in some if one not in known]
