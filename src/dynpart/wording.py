"""Wording: counts, factors and saved bits in words; knows numbers only."""

from __future__ import annotations

import math

LEAST_BITS = 0.05
"""Bits per row that are printed as 0.0."""
LEAST_MORE, LEAST_MORE_SHARE = 0.1, 0.1
"""The sum over all codes is mentioned if it saves this many bits more, and this share more."""
MANY_BITS = 40.0
"""From this many saved bits on, the sum over all codes is not computed: more says nothing new."""
LARGEST_TOLD = 1000
"""Bits from which a factor is not told any more."""


def counted(number: int, noun: str) -> str:
    """A number and a noun: "1 row", "2,201 rows"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def times_in_words(bits: float) -> str:
    """A factor, if every bit doubles it: "about 12 times"."""
    if bits > LARGEST_TOLD:
        return f"more than 2^{LARGEST_TOLD} times"
    if bits > 40:
        return f"2^{bits:.0f} times"
    times = 2.0**bits
    if times >= 100:
        exponent = 10 ** (int(math.log10(times)) - 1)
        return f"about {round(times / exponent) * exponent:,} times"
    if times >= 10:
        return f"about {times:.0f} times"
    return f"{times:.3g} times" if times < 1.1 else f"{times:.2g} times"


def saving_in_words(
    saved: float,
    row: str = "row",
    part: str = "column",
    summed: float | None = None,
    repeats: float = 0.0,
) -> str:
    """Bits per row that a model saves against independent columns, or pixels, in words.

    Parameters
    ----------
    saved : float
        With one code per row, whose experts are named; negative if columns are better.
    row, part : str
        What is described, and its parts.
    summed : float, default=None
        Bits saved by the sum over all codes, which names no expert; mentioned if it saves clearly
        more than `saved`. None if it is not known.
    repeats : float, default=0.0
        Bits that columns on their own would save by knowing which values repeat; mentioned if they
        are a noticeable part.
    """
    told = _saving_in_words(saved, row, part, summed)
    if repeats < max(LEAST_MORE, LEAST_MORE_SHARE * saved):
        return told
    alone = f"{part.capitalize()}s on their own would save {repeats:.1f} bits"
    return f"{told} {alone} by knowing which values they repeat, such as whole numbers."


def _saving_in_words(saved: float, row: str, part: str, summed: float | None) -> str:
    """The same without repeated values."""
    if abs(saved) < LEAST_BITS:
        same = f"A {row} takes as many bits as {part} by {part}"
        if summed is None or summed < LEAST_BITS:
            return f"{same}: its experts save next to nothing."
        return f"{same}; over all choices of experts, it is {times_in_words(summed)} as likely."
    if saved > 0:
        less = f"A {row} takes {saved:.1f} bits less than {part} by {part}"
        likely = f"{less}: {times_in_words(saved)} as likely"
        if summed is None:
            return likely + (" with one choice of experts." if saved < MANY_BITS else ".")
        if summed - saved < max(LEAST_MORE, LEAST_MORE_SHARE * saved):
            return f"{likely}."
        return (
            f"{likely}. Over all choices of experts, it takes {summed:.1f} bits less: "
            f"{times_in_words(summed)} as likely."
        )
    alone, bits = f"{part.capitalize()}s on their own describe a {row}", f"by {-saved:.1f} bits"
    if summed is not None and summed <= 0:
        return f"{alone} better, {bits}: these experts found nothing that holds."
    one = f"{alone} better than the experts named for it do, {bits}."
    if summed is None:
        return one
    return (
        f"{one} Over all choices of experts, it is {times_in_words(summed)} as likely as {part} by "
        f"{part}."
    )
