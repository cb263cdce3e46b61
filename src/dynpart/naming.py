"""Names of experts, from what they say and where they decide; knows opinions and schemas."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from dynpart.opinions import Opinions
from dynpart.schema import Schema

MOST_TRAITS = 3
LEAST_SHARE = 0.2
"""Traits weigh at least so much of the first one; others say little of the expert."""
LEAST_NATS = 0.02
"""An opinion this close to what is usual is no trait."""
SLIGHT, CLEAR = 0.35, 2.0
"""Standard deviations from the usual mean between which a number is a little high or low."""
LONGEST_COLUMN = 32
"""Letters of an expert's name as a column, at most."""
LONGEST_NAME = 80
UNREMARKABLE = "nothing unusual"
_QUALITIES = ("able", "al", "borne", "ed", "ful", "ible", "ic", "ing", "ish", "ive", "ous")
"""Ends of words that say how something is: these are negated with *not*, others with *no*."""

_BOOLEANS = ({"no", "yes"}, {"false", "true"})

_PLACES = (
    ("upper left", "top", "upper right"),
    ("left", "centre", "right"),
    ("lower left", "bottom", "lower right"),
)
WIDE = 0.6
"""A part that covers more than this share of an image is everywhere."""


def expert_names(
    opinions: Opinions, schema: Schema, given: Mapping[int, str] | None = None
) -> list[str]:
    """A name for every expert, all different: its traits, or what somebody has called it.

    Parameters
    ----------
    opinions : Opinions
    schema : Schema
    given : mapping of int to str, optional
        Names that people gave, by expert.

    Returns
    -------
    list of str
        Such as "milk, hair, no eggs" for tables and "lower left" for images.
    """
    given = given or {}
    names: dict[int, str] = dict(given)
    taken = set(given.values())
    for k in range(len(opinions.value)):
        if k in given:
            continue
        candidates = list(_candidates(opinions, schema, k))
        free = (name for name in candidates if name not in taken)
        names[k] = next(free, None) or _numbered(candidates[0], taken)
        taken.add(names[k])
    return [names[k] for k in range(len(opinions.value))]


def _candidates(opinions: Opinions, schema: Schema, k: int) -> Iterable[str]:
    """Names for an expert, the best first; later ones say one thing more."""
    if schema.image_shape is not None:
        yield _place_name(opinions, schema.image_shape, k)
        return
    telling = traits(opinions, schema, k, MOST_TRAITS + 2)
    if not telling:
        yield UNREMARKABLE
        return
    most = min(MOST_TRAITS, len(telling))
    for count in range(most, len(telling) + 1):
        yield ", ".join(telling[:count])


def _numbered(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name} ({number})" in taken:
        number += 1
    return f"{name} ({number})"


def traits(opinions: Opinions, schema: Schema, k: int, most: int = MOST_TRAITS) -> list[str]:
    """What expert k says that is unusual, the most telling first: "milk", "no eggs"."""
    strongest = opinions.strongest(k, most)
    enough = LEAST_SHARE * opinions.weight[k, strongest[0]] if strongest else 0.0
    return [
        trait(opinions, schema, k, d)
        for d in strongest
        if opinions.weight[k, d] >= enough and opinions.strength[k, d] >= LEAST_NATS
    ]


def trait(opinions: Opinions, schema: Schema, k: int, d: int) -> str:
    """One opinion in as few words as possible."""
    name = schema.label(d)
    if not np.isnan(opinions.chance[k, d]):
        said = value_in_words(schema, d, opinions.value[k, d])
        if said in ("yes", "no"):
            return name if said == "yes" else negated(name)
        return f"{name} {said}"
    distance = (opinions.value[k, d] - opinions.usual[k, d]) / (opinions.spread[d] or 1.0)
    words = ("high", "low") if schema.kinds[d] != "count" else ("many", "few")
    word = words[0] if distance > 0 else words[1]
    if abs(distance) >= CLEAR:
        word = f"very {word}"
    elif abs(distance) < SLIGHT:
        word = f"rather {word}"
    return f"{word} {name}"


def value_in_words(schema: Schema, d: int, value: float) -> str:
    """A value of variable d as a person would say it: "yes", "third", "3.2"."""
    if schema.kinds[d] == "binary":
        level = 1 if value > 0.5 else 0
        names = schema.levels_of(d)
        if names is None or {name.strip().lower() for name in names} in _BOOLEANS:
            return ("no", "yes")[level]
        return names[level]
    return schema.value_text(d, value) if schema.kinds[d] == "categorical" else f"{value:.4g}"


def opinion_in_words(opinions: Opinions, schema: Schema, k: int, d: int) -> str:
    """What expert k says of variable d, beside what is usual: "yes (99%; usually 41%)"."""
    said = value_in_words(schema, d, opinions.value[k, d])
    if np.isnan(opinions.chance[k, d]):
        return f"{said} (usually {opinions.usual[k, d]:.4g})"
    return f"{said} ({percent(opinions.chance[k, d])}; usually {percent(opinions.usual[k, d])})"


def percent(share: float) -> str:
    """A share in percent: small and large ones with a digit more, never rounded to 0 or 100."""
    if 0.0995 <= share < 0.995 or share in (0, 1):
        return f"{share:.0%}"
    if share < 0.001:
        return "under 0.1%"
    return "over 99.9%" if share > 0.999 else f"{share:.1%}"


def negated(name: str) -> str:
    """That something is not so, or not there: "no eggs", "not aquatic"."""
    words = name.split()
    if len(words) > 1 and words[0].lower() in ("no", "not"):
        return name.split(maxsplit=1)[1]
    quality = len(words) == 1 and words[0].lower().endswith(_QUALITIES)
    return f"not {name}" if quality or len(words) > 2 else f"no {name}"


# ------------------------------------------------------------------ places in images


def place_in_words(pixels: NDArray[np.intp], shape: tuple[int, int]) -> str:
    """Where pixels lie: "lower left", "top", "centre", "everywhere"."""
    if not len(pixels):
        return "nowhere"
    if len(pixels) > WIDE * shape[0] * shape[1]:
        return "everywhere"
    rows, columns = np.divmod(pixels, shape[1])
    return _PLACES[_third(rows, shape[0])][_third(columns, shape[1])]


def _third(places: NDArray[np.intp], length: int) -> int:
    return min(2, int(3 * (float(np.mean(places)) + 0.5) / length))


def _place_name(opinions: Opinions, shape: tuple[int, int], k: int) -> str:
    """Where an expert says something unusual, and whether it is more or less than usual."""
    weight = opinions.weight[k]
    order = np.argsort(-weight, kind="stable")
    total = np.cumsum(weight[order])
    if not total[-1] > 0:
        return UNREMARKABLE
    strongest = order[: 1 + int(np.searchsorted(total, 0.5 * total[-1]))]
    place = place_in_words(strongest, shape)
    levels = ~np.isnan(opinions.chance[k, strongest])
    more = np.where(
        levels,
        opinions.value[k, strongest] > 0,
        opinions.value[k, strongest] > opinions.usual[k, strongest],
    )
    is_more = (weight[strongest] * np.where(more, 1, -1)).sum() > 0
    if levels.all():
        return place if is_more else f"empty {place}"
    return f"{'bright' if is_more else 'dark'} {place}"


# ------------------------------------------------------------------ columns


def column_names(names: Iterable[str]) -> list[str]:
    """Names of experts as columns of a table: "expert3_milk_hair", all different.

    The number says which expert it is, whatever it is called later.
    """
    return [f"expert{k}{_ending(name)}" for k, name in enumerate(names)]


def _ending(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    words = re.findall("[a-z0-9]+", plain)
    ending = ""
    for word in words:
        if len(ending) + 1 + len(word) > LONGEST_COLUMN:
            break
        ending += f"_{word}"
    return ending


def expert_of_column(column: str) -> int | None:
    """Which expert a column of codes belongs to; None if it is no such column."""
    match = re.fullmatch(r"expert([0-9]{1,9})(_.*)?", column)
    return int(match[1]) if match else None


def checked_names(given: Mapping[int, str | None], n_experts: int) -> dict[int, str]:
    """Names given by people, or ValueError that says what is wrong with them; None is no name."""
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
