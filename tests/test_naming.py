"""Names of experts say what the arrays say, and are all different."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel, load
from dynpart.codebook import CodeBook
from dynpart.composition import owners
from dynpart.datasets import load_digits
from dynpart.engines import Experts
from dynpart.families import Bernoulli, Gaussian, column_moments, make_family
from dynpart.naming import (
    MOST_TRAITS,
    column_names,
    expert_names,
    expert_of_column,
    mean_in_words,
    negated,
    opinion_in_words,
    percent,
    place_in_words,
    short_labels,
    trait,
    traits,
    value_in_words,
)
from dynpart.opinions import decisions, opinions_of
from dynpart.schema import Schema
from tests.effort import examples

WORDS = ["milk", "eggs", "hair", "feathers", "aquatic", "fins", "tail"]


@st.composite
def tables(draw):
    """Experts with binary opinions, their code book, and moments of rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_experts, n_features = draw(st.integers(1, 6)), len(WORDS)
    eta = np.clip(rng.beta(0.4, 0.4, size=(1, n_experts, n_features)), 1e-3, 1 - 1e-3)
    experts = Experts(Bernoulli(), eta, rng.normal(size=(n_experts, n_features)))
    codes = rng.random((20, n_experts)) < 0.5
    codes[~codes.any(axis=1), 0] = True
    book = CodeBook.of(codes, rng.integers(1, 5, 20).astype(float))
    moments = column_moments((rng.random((30, n_features)) < rng.random(n_features)).astype(float))
    return experts, codes.mean(axis=0), moments, book


@given(tables())
@examples(50)
def test_every_trait_of_a_name_is_an_opinion_that_is_likelier_than_usual(drawn):
    experts, probabilities, moments, book = drawn
    opinions = opinions_of(experts, probabilities, moments, book)
    schema = Schema.of("binary", len(WORDS), names=WORDS)
    names = expert_names(opinions, schema)
    assert len(set(names)) == len(names)
    says = {word: (d, 1) for d, word in enumerate(WORDS)}
    says |= {negated(word): (d, 0) for d, word in enumerate(WORDS)}
    for k, name in enumerate(names):
        told = [says[word] for word in name.split(" (")[0].split(", ") if word in says]
        assert len(told) <= MOST_TRAITS + 2
        for d, value in told:
            own, usual = experts.eta[0, k, d], moments.mean[d]
            own, usual = (own, usual) if value else (1 - own, 1 - usual)
            assert own >= 0.5
            assert own > usual
            assert opinions.decides[k, d] > 0


@given(tables())
@examples(50)
def test_an_expert_decides_as_often_as_it_owns_the_variable(drawn):
    experts, probabilities, _, book = drawn
    decides = decisions(experts, probabilities, book)
    rows = np.repeat(book.codes, book.counts.astype(int), axis=0)
    owner = owners(experts.ranks, rows)
    for k in range(experts.n_experts):
        mine = rows[:, k]
        if mine.any():
            np.testing.assert_allclose(decides[k], (owner[mine] == k).mean(axis=0))


def test_without_codes_experts_decide_as_often_as_their_betters_are_absent():
    levels = np.array([[2.0], [1.0], [0.0]])
    experts = Experts(Bernoulli(), np.full((1, 3, 1), 0.5), levels)
    found = decisions(experts, np.array([0.25, 0.5, 0.9]), None)
    np.testing.assert_allclose(found.ravel(), [1.0, 0.75, 0.375])


@given(tables(), st.randoms())
@examples(30)
def test_names_do_not_depend_on_the_order_of_variables(drawn, random):
    experts, probabilities, moments, book = drawn
    order = list(range(len(WORDS)))
    random.shuffle(order)
    turned = Experts(experts.family, experts.eta[:, :, order], experts.log2_expertise[:, order])
    turned_moments = column_moments(np.zeros((1, len(WORDS))))
    turned_moments = turned_moments.__class__(
        moments.n_rows, moments.mean[order], moments.variance[order], True, moments.weight,
        moments.observed[order],
    )  # fmt: skip
    schema = Schema.of("binary", len(WORDS), names=WORDS)
    shuffled = Schema.of("binary", len(WORDS), names=[WORDS[d] for d in order])
    here = expert_names(opinions_of(experts, probabilities, moments, book), schema)
    there = expert_names(opinions_of(turned, probabilities, turned_moments, book), shuffled)
    assert here == there


def test_numbers_are_high_or_low():
    family = Gaussian(centre=np.array([10.0, 5.0]), floor=0.1)
    means = np.array([[14.0, 5.0], [10.0, 2.6], [10.0, 5.0]])
    experts = Experts(family, family.from_moments(means, np.ones((3, 2))), np.zeros((3, 2)))
    rows = np.array([[9.0, 4.0], [11.0, 6.0]])  # standard deviations of 1
    opinions = opinions_of(experts, np.full(3, 0.3), column_moments(rows), None)
    np.testing.assert_allclose(opinions.strength, [[8, 0], [0, 2.88], [0, 0]])
    schema = Schema.of("real", 2, names=["age", "income"])
    assert expert_names(opinions, schema) == ["very high age", "very low income", "nothing unusual"]


def test_an_exact_number_is_named_even_if_it_is_the_usual_one():
    """Years: of three experts one says 2008, the mean of all rows, and nothing else."""
    family = Gaussian(centre=np.array([2008.0, 5.0]), floor=1e-6)
    means = np.array([[2008.0, 5.0], [2009.0, 5.0], [2008.0, 5.0], [2008.2, 5.0]])
    variances = np.array([[1e-6, 1.0], [1e-6, 1.0], [0.6, 1.0], [0.1, 1.0]])
    experts = Experts(family, family.from_moments(means, variances), np.zeros((4, 2)))
    rows = np.array([[2007.0, 4.0], [2008.0, 5.0], [2009.0, 6.0]])
    opinions = opinions_of(experts, np.full(4, 0.3), column_moments(rows), None)
    schema = Schema.of("real", 2, names=["year", "income"])
    names = expert_names(opinions, schema)
    assert names == ["year 2008", "year 2009", "nothing unusual", "rather high year"]
    assert opinions.strongest(0, 5) == [0]
    assert opinion_in_words(opinions, schema, 0, 0) == "2008 (usually 2008)"


@pytest.mark.parametrize(
    ("levels", "words", "negation"),
    [
        (("No", "Yes"), ("No", "Yes"), "Survived: No"),
        (("False", "True"), ("False", "True"), "Survived: False"),
        (None, ("no", "yes"), "Survived: no"),
    ],
)
def test_levels_are_named_as_in_the_table(levels, words, negation):
    experts = Experts(Bernoulli(), np.array([[[0.98], [0.02]]]), np.zeros((2, 1)))
    opinions = opinions_of(experts, np.full(2, 0.5), None, None)
    schema = Schema(("binary",), ("Survived",), levels=(levels,))
    assert tuple(value_in_words(schema, 0, value) for value in (0, 1)) == words
    assert opinion_in_words(opinions, schema, 0, 0).startswith(f"{words[1]} (98%;")
    assert expert_names(opinions, schema) == ["Survived", negation]


def test_columns_of_every_kind_speak_of_themselves():
    """A mixed table: two levels, three levels, a count and a number."""
    kinds = ("binary", "categorical", "count", "real")
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(0, 2, 60), rng.integers(0, 3, 60), rng.poisson(3, 60),
              rng.normal(10, 2, 60)]  # fmt: skip
    moments = column_moments(X)
    family = make_family(
        "auto", moments, kinds=kinds, n_levels=[None, 3, None, None], own_scale=True
    )
    counts = np.array([[(X[:, d] == v).sum() for d in range(4)] for v in range(3)])
    moments = replace(moments, levels=counts.astype(float))
    population = family.population(moments)
    eta = np.repeat(population[:, None], 3, axis=1)
    categorical = np.array([[0.05, 0.05, 0.9], [0.9, 0.05, 0.05], [0.34, 0.33, 0.33]])
    eta[:3, :, 1] = categorical.T
    eta[:2, :, 0] = np.array([[0.02, 0.98], [0.98, 0.02], [0.5, 0.5]]).T
    experts = Experts(family, family.constrain(eta), np.zeros((3, 4)))
    opinions = opinions_of(experts, np.full(3, 0.3), moments, None)
    assert opinions.value[:2, 1].tolist() == [2, 0]
    np.testing.assert_allclose(opinions.chance[:2, 1], 0.9, atol=0.01)
    shares = [(X[:, 1] == level).mean() for level in (2, 0)]
    np.testing.assert_allclose(opinions.usual[:2, 1], shares, atol=0.02)
    assert np.isnan(opinions.chance[:, 2:]).all()
    np.testing.assert_allclose(opinions.usual[0, 2:], X[:, 2:].mean(axis=0))
    schema = Schema(kinds, ("milk", "legs", "visits", "age"))
    names = expert_names(opinions, schema)
    assert set(names[0].split(", ")) == {"milk", "legs 2"}
    assert set(names[1].split(", ")) == {"milk: no", "legs 0"}


@pytest.mark.parametrize(
    ("rows", "columns", "place"),
    [(slice(4, 6), slice(3), "lower left"), (slice(2), slice(3, 6), "top"),
     (slice(2, 4), slice(3, 6), "centre"), (slice(2, 4), slice(6, 9), "right"),
     (slice(2), slice(9), "top"), (slice(6), slice(3), "left"), (slice(3), slice(9), "upper half"),
     (slice(6), slice(5, 9), "right half"), (slice(3), slice(5, 9), "upper right"),
     (slice(6), slice(3, 6), "middle columns"), (slice(2, 4), slice(9), "middle rows"),
     (slice(6), slice(9), "everywhere"), (slice(0), slice(0), "nowhere")],
)  # fmt: skip
def test_places_of_images(rows, columns, place):
    weight = np.zeros((6, 9))
    weight[rows, columns] = 1.0
    assert place_in_words(weight.ravel(), weight.shape) == place


def test_places_are_told_where_more_is_than_usual():
    """Nearly everything is in the middle columns, as strokes are; this weight is at their top."""
    usual, weight = np.full((6, 6), 0.01), np.zeros((6, 6))
    usual[:, 2:4] = 1.0
    weight[:2, 2:4], weight[2:, 2:4] = 1.0, 0.2
    assert place_in_words(weight.ravel(), (6, 6)) == "middle columns"
    assert place_in_words(weight.ravel(), (6, 6), usual.ravel()) == "top"


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9))
@examples(50)
def test_most_of_a_weight_is_in_its_place(seed, height, width):
    """Places in words are parts of these halves and bands, which hold at least half of it."""
    weight = np.random.default_rng(seed).random((height, width)) ** 6
    place = place_in_words(weight.ravel(), weight.shape)
    down, across = np.mgrid[:height, :width] + 0.5
    inside = np.ones((height, width), dtype=bool)
    for words, half in [
        (("upper", "top"), down < height / 2),
        (("lower", "bottom"), down > height / 2),
        (("left",), across < width / 2),
        (("right",), across > width / 2),
        (("centre", "middle rows"), abs(down / height - 0.5) < 1 / 6),
        (("centre", "middle columns"), abs(across / width - 0.5) < 1 / 6),
    ]:
        if any(word in place for word in words):
            inside &= half
    assert (place == "everywhere") or not inside.all()
    assert weight[inside].sum() >= 0.5 * weight.sum() - 1e-9


@pytest.mark.slow
def test_experts_of_images_are_named_by_place():
    digits = load_digits()
    model = DynamicPartitionModel(8, max_active=4, max_iter=8, random_state=0).fit(digits.train)
    model.image_shape_ = digits.image_shape
    names = model.expert_names_
    assert len(set(names)) == 8
    places = ("top", "bottom", "left", "right", "centre", "middle", "half", "everywhere")
    assert all(any(place in name for place in places) for name in names)
    assert not any("(2)" in name for name in names)


@pytest.mark.parametrize("name", ["eggs", "breathes", "aquatic", "no legs", "makes friends easily"])
def test_negations_need_no_grammar(name):
    assert negated(name) == f"{name}: no"


@given(st.floats(-1e9, 1e9), st.floats(1e-5, 1e9))
@examples(200)
def test_means_are_told_to_the_second_digit_of_the_spread(value, spread):
    told = mean_in_words(value, spread)
    assert "e" not in told
    assert told != "-0"
    assert abs(float(told) - value) <= spread / 20 * (1 + 1e-9) + 1e-12 * abs(value)
    digits = told.lstrip("-").replace(".", "").strip("0")
    assert len(digits) <= max(1, 3 + np.log10(max(abs(value), spread) / spread))


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [(89491.3, 26703.0, "89000"), (0.0004, 0.86, "0"), (3.998, 0.7, "4"), (-1e-19, 0.5, "0"),
     (21.69, 11.1, "22"), (1999.6, 3.0, "1999.6"), (5.0, 0.0, "5"), (2.5, np.nan, "2.5")],
)  # fmt: skip
def test_means_have_the_digits_that_matter(value, spread, text):
    assert mean_in_words(value, spread) == text


def test_opinions_that_are_hardly_asked_for_name_nobody():
    """An expert that owns age in all of its rows and income, with an extreme mean, in one of 20."""
    family = Gaussian(centre=np.array([10.0, 5.0]), floor=0.1)
    means = np.array([[11.5, 25.0], [9.0, 5.0]])
    experts = Experts(
        family, family.from_moments(means, np.ones((2, 2))), np.array([[1.0, 0], [0, 1]])
    )
    codes = np.array([[True, True], [True, False]])
    rows = np.array([[9.0, 4.0], [11.0, 6.0]])  # standard deviations of 1
    schema = Schema.of("real", 2, names=["age", "income"])
    names = {}
    for alone in (1.0, 9.0):
        book = CodeBook.of(codes, np.array([19.0, alone]))
        opinions = opinions_of(experts, np.array([1.0, 0.9]), column_moments(rows), book)
        assert opinions.decides[0].tolist() == [1.0, alone / (19 + alone)]
        names[alone] = expert_names(opinions, schema)[0]
    assert names == {1.0: "high age", 9.0: "high age, sometimes very high income"}


@given(tables())
@examples(50)
def test_names_hold_in_most_rows_that_an_expert_decides(drawn):
    experts, probabilities, moments, book = drawn
    opinions = opinions_of(experts, probabilities, moments, book)
    schema = Schema.of("binary", len(WORDS), names=WORDS)
    for k in range(experts.n_experts):
        decided = {
            trait(opinions, schema, k, d, word): opinions.decides[k, d]
            for d, word in enumerate(WORDS)
        }
        often = {word for word, share in decided.items() if share >= 0.5 * max(decided.values())}
        strength = opinions.strength[k]
        strong = {word for word, nats in zip(decided, strength, strict=True) if nats > 0.02}
        for word in traits(opinions, schema, k, WORDS):
            if word.startswith("sometimes "):
                assert decided[word.removeprefix("sometimes ")] < 0.5 * max(decided.values())
            elif often & strong:
                assert word in often


QUESTIONS = [
    "age",
    "How satisfied are you with your job?",
    "How satisfied are you with your home town?",
    "How often did you feel tired in the last month?",
    "How often did you feel calm in the last month?",
    "number of children aged under five in the household",
    "Antidisestablishmentarianismusforscher",
]


def test_long_names_of_variables_are_shortened_to_what_tells_them_apart():
    assert short_labels(QUESTIONS) == [
        "age", "…job?", "…home town?", "…tired…", "…calm…", "number of children aged…",
        "Antidisestablishmentarianis…",
    ]  # fmt: skip
    twins = ["x" * 40 + "1", "x" * 40 + "2"]
    assert short_labels(twins) == twins


def test_sentences_and_their_answers_are_kept_apart():
    eta = np.array([[[0.95, 0.95, 0.95, 0.95]]])
    opinions = opinions_of(
        Experts(Bernoulli(), eta, np.zeros((1, 4))),
        np.ones(1),
        column_moments(np.array([[1.0, 1, 1, 1], [0, 0, 0, 0]])),
        None,
    )
    levels = (("disagree", "agree"), ("low", "high"), ("no", "yes"), ("never", "often"))
    schema = Schema(("binary",) * 4, ("Panic easily.", "mood", "Cry.", "Tired?"), levels=levels)
    told = [trait(opinions, schema, 0, d, schema.label(d)) for d in range(4)]
    assert told == ["Panic easily: agree", "mood high", "Cry", "Tired?: often"]


@given(st.lists(st.text(st.sampled_from("ab ?"), min_size=1, max_size=60), unique=True))
@examples(100)
def test_short_names_differ_where_names_do(labels):
    short = short_labels(labels)
    assert len(set(short)) == len(labels)
    assert all(s == label or len(s) <= 28 for s, label in zip(short, labels, strict=True))


def test_an_expert_of_nearly_all_rows_is_not_named_by_what_it_says_in_few():
    """It owns *age* wherever it is active, and *crew* only where no other has a say."""
    eta = np.array([[[0.999, 0.99], [0.5, 0.01]]])
    experts = Experts(Bernoulli(), eta, np.array([[1.0, 0.0], [0.0, 1.0]]))
    book = CodeBook.of(np.array([[True, True], [True, False]]), np.array([6.0, 4.0]))
    rows = np.array([[1.0, 0]] * 11 + [[1.0, 1]] * 8 + [[0.0, 0]])
    opinions = opinions_of(experts, np.array([1.0, 0.6]), column_moments(rows), book)
    names = expert_names(opinions, Schema.of("binary", 2, names=["adult", "crew"]))
    assert names[0] == "adult, sometimes crew"


@given(tables())
@examples(50)
def test_every_trait_is_decided_in_some_of_the_experts_rows(drawn):
    experts, probabilities, moments, book = drawn
    opinions = opinions_of(experts, probabilities, moments, book)
    for k in range(experts.n_experts):
        most = opinions.decides[k].max()
        assert all(opinions.decides[k, d] >= 0.1 * most for d in opinions.strongest(k, 7))


def test_names_begin_with_what_others_do_not_say():
    """Two experts share their strongest opinion; a weaker one that nobody shares comes first."""
    eta = np.array([[[0.95, 0.9, 0.5], [0.95, 0.5, 0.9]]])
    experts = Experts(Bernoulli(), eta, np.zeros((2, 3)))
    moments = column_moments(np.array([[1.0, 1, 0], [0, 0, 1]]))
    opinions = opinions_of(experts, np.full(2, 0.5), moments, None)
    assert opinions.strongest(0, 1) == opinions.strongest(1, 1) == [0]
    names = expert_names(opinions, Schema.of("binary", 3, names=["milk", "fins", "hair"]))
    assert names == ["fins, milk", "hair, milk"]


@given(tables())
@examples(50)
def test_an_opinion_is_as_distinctive_as_the_experts_share_of_it(drawn):
    opinions = opinions_of(*drawn)
    weight = opinions.weight
    for k, d in np.ndindex(weight.shape):
        same = opinions.value[:, d] == opinions.value[k, d]
        share = weight[k, d] / weight[same, d].sum() if weight[k, d] else 0
        assert opinions.distinction[k, d] == pytest.approx(weight[k, d] * share)


def test_experts_of_one_name_are_told_apart_by_weaker_traits():
    """Two experts that say the same of one variable: a second one tells them apart, no number."""
    eta = np.array([[[0.999, 0.5, 0.5], [0.999, 0.5, 0.7]]])
    experts = Experts(Bernoulli(), eta, np.zeros((2, 3)))
    moments = column_moments(np.array([[1.0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]]))
    opinions = opinions_of(experts, np.full(2, 0.5), moments, None)
    names = expert_names(opinions, Schema.of("binary", 3, names=["milk", "tail", "fins"]))
    assert names == ["milk", "milk, fins"]


def test_names_that_differ_in_order_alone_count_as_equal():
    eta = np.array([[[0.99, 0.98], [0.98, 0.99], [0.99, 0.98]]])
    experts = Experts(Bernoulli(), eta, np.zeros((3, 2)))
    moments = column_moments(np.array([[1.0, 1], [0, 0], [0, 0], [0, 0]]))
    opinions = opinions_of(experts, np.full(3, 0.3), moments, None)
    schema = Schema.of("binary", 2, names=["milk", "tail"])
    names = expert_names(opinions, schema)
    assert all({*name.split(" (")[0].split(", ")} == {"milk", "tail"} for name in names)
    assert {name.partition(" (")[2] for name in names} == {"", "2)", "3)"}
    assert expert_names(opinions, schema, {1: "tail, milk"})[0].endswith(" (2)")


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0%"), (1.0, "100%"), (0.404, "40%"), (0.031, "3.1%"), (0.0002, "under 0.1%"),
     (0.9961, "99.6%"), (0.9999, "over 99.9%")],
)  # fmt: skip
def test_shares_are_never_rounded_to_certainty(share, text):
    assert percent(share) == text


def test_columns_begin_with_the_experts_number():
    names = ["milk, hair, eggs: no", "Été (2)", "!", "a word " * 20]
    columns = column_names(names)
    assert columns[:3] == ["expert0_milk_hair_eggs_no", "expert1_ete_2", "expert2"]
    long = ["high cheese, low wine, sometimes status crew", "a very long trait of many words, b"]
    assert column_names(long) == [
        "expert0_high_cheese_low_wine",
        "expert1_a_very_long_trait_of_many_words",
    ]
    assert all(column.isidentifier() and len(column) < 45 for column in columns)
    assert [expert_of_column(column) for column in columns] == [0, 1, 2, 3]
    assert expert_of_column("expertise") is None


# ------------------------------------------------------------------ names that people give


@pytest.fixture(scope="module")
def pairs():
    from dynpart.datasets import make_pairs

    X = make_pairs(3)
    return DynamicPartitionModel(6, random_state=0).fit(X), X


def test_given_names_are_kept_in_the_file_and_forgotten_by_a_fit(pairs, tmp_path):
    model, X = pairs
    model = DynamicPartitionModel(6, random_state=0).fit(X)
    own = model.expert_names_
    assert model.rename_experts({3: "wet sites"}) is model
    model.rename_experts({1: " meadows "})
    assert [model.expert_names_[k] for k in (1, 3)] == ["meadows", "wet sites"]
    model.save(tmp_path / "m.dynpart")
    assert load(tmp_path / "m.dynpart").expert_names_ == model.expert_names_
    assert model.rename_experts({3: None}).expert_names_[3] == own[3]
    assert model.fit(X).expert_names_ == own


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({6: "x"}, "0 to 5, got 6"),
        ({True: "x"}, "got True"),
        ({"1": "x"}, "got '1'"),
        ({1: ""}, "expert 1 must be text"),
        ({1: 7}, "expert 1 must be text"),
        ({1: "a\nb"}, "one line"),
        ({1: "x" * 200}, "1 to 80 letters"),
        ({1: "same", 2: "same"}, "differ"),
    ],
)
def test_names_that_cannot_be_are_refused_and_change_nothing(pairs, names, words):
    model, _ = pairs
    before = model.expert_names_
    with pytest.raises(ValueError, match=words):
        model.rename_experts(names)
    assert model.expert_names_ == before


def test_an_expert_never_takes_a_name_that_was_given_to_another(pairs):
    model, X = pairs
    model = DynamicPartitionModel(6, random_state=0).fit(X)
    model.rename_experts({0: model.expert_names_[1]})
    assert len(set(model.expert_names_)) == 6
