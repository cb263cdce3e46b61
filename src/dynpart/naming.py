"""Names of experts, from their opinions and the variables they own; uses opinions and schemas."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise, product

import numpy as np

from dynpart.opinions import Array, Opinions, divergence, largest
from dynpart.schema import Schema

MOST_TRAITS = 3
TRAIT_SEPARATOR = ", "
LEAST_SHARE = 0.3
"""Minimum distinction of a trait relative to the first one."""
LEAST_NATS = 0.02
"""Minimum difference between an opinion and the usual one, in nats, for a trait."""
MOSTLY = 0.5
"""Minimum share of rows in which traits are owned, relative to the expert's most owned variable."""
FAR_MORE = 2.0
"""A trait of fewer rows is added if its distinction is more than this many times the others'."""
SLIGHT, CLEAR = 0.35, 2.0
"""Standard deviations from the usual mean between which a number is a little high or low."""
LONGEST_COLUMN = 32
"""Maximum number of letters of an expert's name as a column."""
LONGEST_NAME = 80
LONGEST_WORDS = 28
"""Maximum number of letters of a variable or level in a name; longer ones are shortened."""
MOST_EXACT = 1e15
"""Decimal digits of larger means are rounding errors."""
UNREMARKABLE = "nothing unusual"
_POSITIVE, _NEGATIVE = ("yes", "true"), ("no", "false")
"""Levels that a name tells by the variable alone, and by its negation; in any case."""

_PARTS = {
    "all": (0.0, 1.0),
    "first third": (0.0, 1 / 3),
    "middle third": (1 / 3, 2 / 3),
    "last third": (2 / 3, 1.0),
    "first half": (0.0, 0.5),
    "last half": (0.5, 1.0),
}
"""Parts of the height and the width of an image."""
_CORNERS = (("upper left", "top", "upper right"), ("left", "centre", "right"),
            ("lower left", "bottom", "lower right"))  # fmt: skip
_BANDS = {
    "first third": ("top", "left"),
    "middle third": ("middle rows", "middle columns"),
    "last third": ("bottom", "right"),
    "first half": ("upper half", "left half"),
    "last half": ("lower half", "right half"),
}
"""Parts of an image over its whole width, and over its whole height."""
LEAST_PLACED = 0.08
"""Minimum divergence, in nats, of a place's share of the weight from its usual share."""


def expert_names(
    opinions: Opinions, schema: Schema, given: Mapping[int, str] | None = None
) -> list[str]:
    """A name for every expert, all different: its traits, or a name set by the user.

    Parameters
    ----------
    opinions : Opinions
    schema : Schema
    given : mapping of int to str, default=None
        Names set by the user, by expert.

    Returns
    -------
    list of str
        Such as "milk, hair, eggs: no" for tables and "lower left" for images.
    """
    given = given or {}
    labels = () if schema.image_shape is not None else short_labels(schema.labels())
    names: dict[int, str] = dict(given)
    taken = {form for name in given.values() for form in (name, _in_any_order(name))}
    for k in range(len(opinions.value)):
        if k in given:
            continue
        candidates = list(_candidates(opinions, schema, k, labels))
        free = (name for name in candidates if _in_any_order(name) not in taken)
        names[k] = next(free, None) or _numbered(candidates[0], taken)
        taken |= {names[k], _in_any_order(names[k])}
    return [names[k] for k in range(len(opinions.value))]


def _candidates(opinions: Opinions, schema: Schema, k: int, labels: Sequence[str]) -> Iterable[str]:
    """Names for an expert, the best first; each later one has one more trait, however weak."""
    if schema.image_shape is not None:
        yield from _place_names(opinions, schema.image_shape, k)
        return
    telling = traits(opinions, schema, k, labels)
    if not telling:
        yield UNREMARKABLE
        return
    yield TRAIT_SEPARATOR.join(telling)
    more = traits(opinions, schema, k, labels, MOST_TRAITS + 2, least_share=0.0)
    for count in range(len(telling) + 1, len(more) + 1):
        yield TRAIT_SEPARATOR.join(more[:count])


def _in_any_order(name: str) -> str:
    """A name with its traits sorted: names that differ in order alone have the same one.

    A number at the end stays there.
    """
    match = re.fullmatch(r"(.*?)( \([0-9]+\))?", name, re.DOTALL)
    plain, number = (name, "") if match is None else (match[1], match[2] or "")
    return TRAIT_SEPARATOR.join(sorted(plain.split(TRAIT_SEPARATOR))) + number


def _numbered(name: str, taken: set[str]) -> str:
    number = 2
    while _in_any_order(f"{name} ({number})") in taken:
        number += 1
    return f"{name} ({number})"


def traits(
    opinions: Opinions,
    schema: Schema,
    k: int,
    labels: Sequence[str],
    most: int = MOST_TRAITS,
    least_share: float = LEAST_SHARE,
) -> list[str]:
    """Unusual opinions of expert k, the most distinctive first: "milk", "eggs: no".

    What several experts say distinguishes none of them. Traits hold in most rows of the expert:
    variables that others mostly own are left out. One of these comes last, as in "sometimes status
    crew", if it is far more distinctive than the rest.
    """
    distinction, strength = opinions.distinction[k], opinions.strength[k]
    telling = [d for d in largest(distinction) if strength[d] >= LEAST_NATS]
    often = MOSTLY * opinions.decides[k].max()
    chosen = [d for d in telling if opinions.decides[k, d] >= often][:most] or telling[:most]
    told = [
        trait(opinions, schema, k, d, labels[d])
        for d in chosen
        if distinction[d] >= least_share * distinction[chosen[0]]
    ]
    if chosen and distinction[telling[0]] > FAR_MORE * distinction[chosen[0]]:
        told = told[: most - 1]
        told.append(f"sometimes {trait(opinions, schema, k, telling[0], labels[telling[0]])}")
    return told


def trait(opinions: Opinions, schema: Schema, k: int, d: int, name: str) -> str:
    """One opinion, about the variable with this name, in as few words as possible."""
    ends_alone = name[-1:].isalnum()  # otherwise a sentence of a survey, or shortened
    name = name.removesuffix(".")
    if opinions.exact[k, d] or not np.isnan(opinions.chance[k, d]):
        said = says_in_words(opinions, schema, k, d)
        if said.strip().lower() in _POSITIVE:
            return name
        if said.strip().lower() in _NEGATIVE:
            return negated(name, said)
        return f"{name} {_cut(said)}" if ends_alone else f"{name}: {_cut(said)}"
    distance = (opinions.value[k, d] - opinions.usual[k, d]) / (opinions.spread[d] or 1.0)
    words = ("high", "low") if schema.kinds[d] != "count" else ("many", "few")
    word = words[0] if distance > 0 else words[1]
    if abs(distance) >= CLEAR:
        word = f"very {word}"
    elif abs(distance) < SLIGHT:
        word = f"rather {word}"
    return f"{word} {name}"


def short_labels(labels: Sequence[str]) -> Sequence[str]:
    """Names of variables with at most 28 letters, all different if they were.

    In long ones, such as the questions of a survey, words shared with others at the beginning or
    end are left out first.

    Examples
    --------
    >>> from dynpart.naming import short_labels
    >>> short_labels(
    ...     ["age", "How happy are you with your job?", "How happy are you with your town?"]
    ... )
    ['age', '…job?', '…town?']
    """
    if max(map(len, labels), default=0) <= LONGEST_WORDS:
        return labels
    words = [label.split() for label in labels]
    starts = _words_in_common(words)
    ends = _words_in_common([each[start:][::-1] for each, start in zip(words, starts, strict=True)])
    short = []
    for label, own, start, end in zip(labels, words, starts, ends, strict=True):
        left = own[start : max(start + 1, len(own) - end)]
        before, after = ("…" if start else ""), ("…" if start + len(left) < len(own) else "")
        fits = len(label) <= LONGEST_WORDS
        short.append(label if fits else _cut(f"{before}{' '.join(left)}{after}"))
    counts = Counter(short)
    return [name if counts[name] == 1 else label for name, label in zip(short, labels, strict=True)]


def _words_in_common(words: list[list[str]]) -> list[int]:
    """Number of words at the beginning of each text that another text shares; never all of them."""
    order = sorted(range(len(words)), key=lambda i: words[i])
    common = [0] * len(words)
    for i, j in pairwise(order):
        n = 0
        for one, other in zip(words[i], words[j], strict=False):
            if one != other:
                break
            n += 1
        common[i], common[j] = max(common[i], n), max(common[j], n)
    return [max(0, min(n, len(own) - 1)) for n, own in zip(common, words, strict=True)]


def _cut(text: str) -> str:
    """At most 28 letters of a text, up to the end of a word where that leaves half of them."""
    if len(text) <= LONGEST_WORDS:
        return text
    text = text[: LONGEST_WORDS - 1]
    words = text.rsplit(" ", 1)[0]
    return (words if len(words) >= LONGEST_WORDS // 2 else text).rstrip("…") + "…"


def value_in_words(schema: Schema, d: int, value: float) -> str:
    """A value of variable d in words: "third", "3.2", and "yes" for 1 of binary numbers.

    Levels are as in the table: "Yes", "False".
    """
    if schema.kinds[d] == "binary":
        return (schema.levels_of(d) or ("no", "yes"))[1 if value > 0.5 else 0]
    return schema.value_text(d, value)


def mean_in_words(value: float, spread: float) -> str:
    """A mean with as many digits as matter given the spread of values: "3.2", "89000", "0".

    It is rounded to a unit in the second digit of the standard deviation.

    Examples
    --------
    >>> from dynpart.naming import mean_in_words
    >>> mean_in_words(89491.3, 26703.0), mean_in_words(0.0004, 0.86), mean_in_words(3.21, 1.4)
    ('89000', '0', '3.2')
    """
    decimals = digits_after_point(spread)
    if decimals is None or not abs(value) < MOST_EXACT:
        return f"{value:.4g}"
    unit = Decimal(1).scaleb(-decimals)
    told = f"{Decimal(float(value)).quantize(unit, ROUND_HALF_UP):f}"
    told = told.rstrip("0").rstrip(".") if "." in told else told
    return "0" if told == "-0" else told


def digits_after_point(spread: float) -> int | None:
    """Digits after the point of printed means, negative for tens; None if not known.

    They go down to the second digit of the standard deviation of a variable's values.
    """
    if not 1e-6 < spread < 1e12:  # no digits, or too many
        return None
    return 1 - math.floor(math.log10(spread))


def opinion_in_words(opinions: Opinions, schema: Schema, k: int, d: int) -> str:
    """The opinion of expert k on variable d, and the usual one: "yes (99%; usually 41%)"."""
    said, usual = opinions.value[k, d], opinions.usual[k, d]
    if np.isnan(opinions.chance[k, d]):
        spread = float(opinions.spread[d])
        return f"{mean_in_words(said, spread)} (usually {mean_in_words(usual, spread)})"
    chance = percent(opinions.chance[k, d])
    return f"{value_in_words(schema, d, said)} ({chance}; usually {percent(usual)})"


def says_in_words(opinions: Opinions, schema: Schema, k: int, d: int) -> str:
    """The opinion of expert k on variable d: its likeliest level, or its mean."""
    if np.isnan(opinions.chance[k, d]):
        return mean_in_words(opinions.value[k, d], float(opinions.spread[d]))
    return value_in_words(schema, d, opinions.value[k, d])


def percent(share: float) -> str:
    """A share in percent: small and large ones with one more digit, never rounded to 0 or 100."""
    if 0.0995 <= share < 0.995 or share in (0, 1):
        return f"{share:.0%}"
    if share < 0.001:
        return "under 0.1%"
    return "over 99.9%" if share > 0.999 else f"{share:.1%}"


def negated(name: str, word: str = "no") -> str:
    """The negation of any word: "eggs: no"."""
    return f"{name}: {word}"


# ------------------------------------------------------------------ places in images


def place_in_words(weight: Array, shape: tuple[int, int], usual: Array | None = None) -> str:
    """Place in an image where most of a weight is: "lower left", "top", "left half".

    Of the places with at least half of the weight, it is the one whose share of the weight is most
    above its usual share.

    Parameters
    ----------
    weight : ndarray of shape (n_features,)
        A weight of at least 0 for every pixel.
    shape : tuple of int
        (height, width).
    usual : ndarray of shape (n_features,), default=None
        The usual weight of pixels; by default all have the same.

    Returns
    -------
    str
        "everywhere" if no place stands out, "nowhere" without any weight.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.naming import place_in_words
    >>> place_in_words(np.array([0, 0, 0, 0, 0, 0, 1, 0, 0]), (3, 3))
    'lower left'
    """
    total = float(weight.sum())
    if not total > 0:
        return "nowhere"
    names, inside = _places(shape)
    usual = np.ones(len(weight)) if usual is None else usual
    expected = inside @ (usual / usual.sum())
    share = np.minimum(inside @ (weight / total), 1.0)
    gain = np.where((share >= 0.5) & (share > expected), divergence(share, expected), 0.0)
    best = int(gain.argmax())
    return names[best] if gain[best] >= LEAST_PLACED else "everywhere"


def _places(shape: tuple[int, int]) -> tuple[list[str], Array]:
    """Names of the places in an image and the pixels of each, (n_places, n_features)."""
    down, across = ((np.arange(length) + 0.5) / length for length in shape)
    names, masks = [], []
    for (row, (top, bottom)), (column, (left, right)) in product(_PARTS.items(), repeat=2):
        if row == column == "all":
            continue
        rows, columns = (down > top) & (down < bottom), (across > left) & (across < right)
        if row == "all":
            name = _BANDS[column][1]
        elif column == "all":
            name = _BANDS[row][0]
        else:
            order = ("first", "middle", "last")
            name = _CORNERS[order.index(row.split()[0])][order.index(column.split()[0])]
        names.append(name)
        masks.append(np.outer(rows, columns).ravel())
    return names, np.array(masks, dtype=np.float64)


def _place_names(opinions: Opinions, shape: tuple[int, int], k: int) -> Iterable[str]:
    """Places of an expert's unusual opinions, above or below the usual ones.

    The first name has the place of those with more weight, the next one both places.
    """
    weight = opinions.distinction[k]
    if not weight.any():
        yield UNREMARKABLE
        return
    levels = ~np.isnan(opinions.chance[k])
    more = np.where(levels, opinions.value[k] > 0, opinions.value[k] > opinions.usual[k])
    words = ("", "empty ") if levels.all() else ("bright ", "dark ")
    sides = sorted(
        (
            (np.where(side, weight, 0.0), word)
            for side, word in zip((more, ~more), words, strict=True)
        ),
        key=lambda side: -side[0].sum(),
    )
    usual = opinions.weight.sum(axis=0)
    told = [f"{word}{place_in_words(side, shape, usual)}" for side, word in sides if side.any()]
    yield told[0]
    yield TRAIT_SEPARATOR.join(told)


# ------------------------------------------------------------------ columns


def column_names(names: Iterable[str]) -> list[str]:
    """Names of experts as columns of a table: "expert3_milk_hair", all different.

    The number identifies the expert, even if it is renamed later.
    """
    return [f"expert{k}{_ending(name)}" for k, name in enumerate(names)]


def _ending(name: str) -> str:
    """As many traits of a name as a column has room for; words of the first one if it is long."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    told = [re.findall("[a-z0-9]+", part) for part in plain.split(TRAIT_SEPARATOR)]
    return _joined("".join(f"_{word}" for word in words) for words in told) or _joined(
        f"_{word}" for word in told[0]
    )


def _joined(parts: Iterable[str]) -> str:
    """The first parts, as many as have room in the name of a column."""
    ending = ""
    for part in parts:
        if len(ending) + len(part) > LONGEST_COLUMN:
            break
        ending += part
    return ending


def expert_of_column(column: str) -> int | None:
    """The expert that a column of codes belongs to; None if it is no such column."""
    match = re.fullmatch(r"expert([0-9]{1,9})(_.*)?", column)
    return int(match[1]) if match else None


def checked_names(given: Mapping[int, str | None], n_experts: int) -> dict[int, str]:
    """Names set by the user, or ValueError that says what is wrong with them; None is no name."""
    names: dict[int, str] = {}
    for k, name in given.items():
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 0 <= k < n_experts:
            raise ValueError(f"names must be given by expert, 0 to {n_experts - 1}, got {k!r}")
        if name is None:
            continue
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
            raise ValueError(
                f"the name of expert {k} must be text of 1 to {LONGEST_NAME} letters, "
                f"got {name!r:.100}"
            )
        if not name.isprintable():
            raise ValueError(f"the name of expert {k} must be one line of text, got {name!r:.100}")
        names[int(k)] = name.strip()
    if len(set(names.values())) != len(names):
        raise ValueError("names of experts must differ from each other")
    return names
