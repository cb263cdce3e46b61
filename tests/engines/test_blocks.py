"""Rows in blocks: the same experts as from the whole table, whatever the blocks come from."""

import itertools
from functools import reduce
from operator import add
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.engines import make_engine
from dynpart.engines.blocks import FAN_IN, BlockRows, BlocksEngine, split_indices, tree_sum
from dynpart.families import column_moments, make_family
from dynpart.learning import Annealed, Task, fit_experts
from dynpart.opening import open_data
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from dynpart.sources import Folder, MiniBatches, as_table, cut, is_source
from tests.strategies import make_experts, make_rows, make_rule, problems

WHOLE = make_engine("reference")
ENGINE = BlocksEngine(WHOLE)


class Bracketed(str):
    """Remembers in which order it was added."""

    def __add__(self, other):
        return Bracketed(f"({self!s}{other!s})")


@given(st.integers(1, 40 * FAN_IN))
def test_the_tree_has_the_shape_of_additions_level_by_level(n):
    parts = [Bracketed(i) for i in range(n)]
    level = parts
    while len(level) > 1:
        level = [reduce(add, level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    assert tree_sum(parts) == level[0]


def test_nothing_cannot_be_added_up():
    with pytest.raises(ValueError, match="no sums"):
        tree_sum([])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_indices_are_found_in_their_blocks(sizes, data):
    sizes = np.array([*sizes, 1])
    ends = np.cumsum(sizes)
    drawn = data.draw(st.lists(st.integers(0, int(ends[-1]) - 1), min_size=1, max_size=9))
    indices = np.sort(np.array(drawn))
    blocks, within = split_indices(sizes, indices)
    found = [i + ends[b] - sizes[b] for b, some in zip(blocks, within, strict=True) for i in some]
    assert found == list(indices)


def cut_anywhere(rows, rng, n_blocks=4):
    """Blocks of random sizes, some of them empty."""
    cuts = [0, *np.sort(rng.integers(0, len(rows) + 1, n_blocks - 1)), len(rows)]
    return [rows[lo:hi] for lo, hi in itertools.pairwise(cuts)]


def as_it_is(block, index):
    return block


def encoded(data):
    """The rows as a fit would read them."""
    return data.encoded(make_family("auto", data.moments))


def values_of(rows):
    """The values of all blocks."""
    return np.concatenate([block.values for block in rows])


@given(problems(), st.integers(0, 1000))
def test_codes_are_those_of_the_table_and_sums_add_up(problem, seed):
    experts, table = problem
    rng = np.random.default_rng(seed)
    rows, _ = BlockRows.scan(cut_anywhere(table, rng), as_it_is)
    rule = make_rule(experts.n_experts)
    codes, expected = pursue(ENGINE, rows, experts, rule), pursue(WHOLE, table, experts, rule)
    of_all, of_table = codes.summary(experts.n_experts), expected.summary(experts.n_experts)
    assert of_all.n_rows == of_table.n_rows
    np.testing.assert_allclose(of_all.usage, of_table.usage)
    assert of_all.log_likelihood == pytest.approx(of_table.log_likelihood)
    gradient = ENGINE.gradient_sums(rows, experts, codes)
    np.testing.assert_allclose(
        gradient.array, WHOLE.gradient_sums(table, experts, expected).array, rtol=1e-9, atol=1e-9
    )
    sums = ENGINE.responsibility_sums(rows, experts, codes)
    np.testing.assert_allclose(
        sums.array, WHOLE.responsibility_sums(table, experts, expected).array, rtol=1e-9, atol=1e-9
    )


def test_drawn_rows_are_worked_on_in_memory():
    rng = np.random.default_rng(0)
    experts = make_experts(rng)
    table = make_rows(rng, experts, 50)
    rows, _ = BlockRows.scan(cut_anywhere(table, rng), as_it_is)
    indices = np.sort(rng.integers(0, 50, 30))
    drawn = ENGINE.take(rows, indices)
    assert np.array_equal(drawn.values, table.values[indices])
    codes = pursue(ENGINE, drawn, experts, make_rule(5))
    expected = pursue(WHOLE, table[indices], experts, make_rule(5))
    np.testing.assert_array_equal(codes.members, expected.members)
    for sums in ("gradient_sums", "responsibility_sums"):
        found = getattr(ENGINE, sums)(drawn, experts, codes)
        whole = getattr(WHOLE, sums)(table[indices], experts, expected)
        np.testing.assert_array_equal(found.array, whole.array)
        assert np.abs(found.array).max() > 0


def learn(engine, rows, moments, n_iter=10):
    task = Task(engine, rows, moments, make_family("auto", moments), 10, n_iter, 1, 10)
    return fit_experts(task, Annealed(), n_init=1, seed=3, rule=make_rule(10)).experts


@pytest.mark.parametrize("family", ["bernoulli", pytest.param("gaussian", marks=pytest.mark.slow)])
def test_experts_are_those_of_the_whole_table(family):
    rng = np.random.default_rng(1)
    table = np.tile(make_pairs(5), (10, 1)).astype(np.uint8)
    if family == "gaussian":
        table = table + rng.normal(0, 0.2, table.shape)
    expected = learn(WHOLE, Rows(table), column_moments(table))
    experts = learn(ENGINE, *BlockRows.scan(cut_anywhere(Rows(table), rng, 7), as_it_is))
    np.testing.assert_allclose(experts.eta, expected.eta, atol=1e-9)
    # Ties are broken by nudges below 1e-6, in an order that may hang on the last bit.
    np.testing.assert_allclose(experts.log2_expertise, expected.log2_expertise, atol=2e-6)


# ------------------------------------------------------------------ where blocks come from


class Readable:
    """Something of our own that can be read again and again."""

    def __init__(self, blocks):
        self.blocks = blocks

    def __iter__(self):
        return iter(self.blocks)


@pytest.fixture
def table():
    return np.random.default_rng(5).integers(0, 2, (40, 6)).astype(np.uint8)


def sources_of(table, folder):
    yield "list", cut(table, 7)
    yield "re-iterable", Readable(cut(table, 7))
    yield "with labels", Readable([(block, None) for block in cut(table, 7)])
    np.save(folder / "all.npy", table)
    yield "memory map", cut(np.load(folder / "all.npy", mmap_mode="r"), 7)
    (folder / "npy").mkdir()
    for i, block in enumerate(cut(table, 7)):
        np.save(folder / "npy" / f"{i:03d}.npy", block)
    yield "folder of npy", str(folder / "npy")
    polars = pytest.importorskip("polars")
    (folder / "parquet").mkdir()
    for i, block in enumerate(cut(table, 7)):
        polars.DataFrame(block).write_parquet(folder / "parquet" / f"{i:03d}.parquet")
    yield "folder of parquet", folder / "parquet"


def test_every_source_gives_the_same_rows(table, tmp_path):
    indices = np.array([0, 6, 7, 7, 39])
    for name, source in sources_of(table, tmp_path):
        assert is_source(source), name
        data = open_data(source, WHOLE)
        rows = encoded(data)
        assert np.array_equal(values_of(rows), table), name
        assert np.array_equal(data.engine.take(rows, indices).values, table[indices]), name
        assert data.moments.n_rows == 40
        assert data.moments.is_binary, name
        assert np.asarray(data.head).shape == (1, 6)
        assert all(block.values.dtype == np.uint8 for block in rows), name


def test_a_torch_loader_is_a_source(table):
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.from_numpy(table), torch.zeros(len(table)))
    loader = torch.utils.data.DataLoader(data, batch_size=3)
    opened = open_data(loader, WHOLE)
    assert np.array_equal(values_of(encoded(opened)), table)


def test_small_batches_are_joined(table, monkeypatch):
    monkeypatch.setattr("dynpart.sources.BATCH_VALUES", 60)
    batches = MiniBatches(cut(table, 3))
    assert [len(block) for block in batches] == [12, 12, 12, 4]
    assert np.array_equal(np.concatenate(list(batches)), table)


@given(st.integers(1, 50), st.integers(1, 60))
def test_a_pool_stands_for_all_rows(n_rows, n_kept):
    numbers = np.arange(n_rows, dtype=np.float64)[:, None]
    with mock.patch("dynpart.engines.blocks.POOL_BYTES", 8 * n_kept):
        rows, _ = BlockRows.scan(Readable(cut(Rows(numbers), 7)), as_it_is)
        drawn = rows.draw(np.arange(n_rows)).values[:, 0]
    assert len(np.unique(drawn)) == min(n_rows, n_kept)
    assert np.abs(drawn - numbers[:, 0]).max() <= n_rows / min(n_rows, n_kept)


def test_tables_are_no_sources(table):
    pandas = pytest.importorskip("pandas")
    for X in (table, table.tolist(), list(table), pandas.DataFrame(table), [], 3, None):
        assert not is_source(X)


# ------------------------------------------------------------------------- what goes wrong


class Shuffled(Readable):
    def __iter__(self):
        self.blocks = self.blocks[1:] + self.blocks[:1]
        return iter(self.blocks)


def test_a_source_that_changes_its_order_is_noticed(table, monkeypatch):
    monkeypatch.setattr("dynpart.sources.BATCH_VALUES", 1)
    data = open_data(Shuffled(cut(table, 10)), WHOLE)
    with pytest.raises(ValueError, match="same order"):
        list(encoded(data))


def test_a_source_that_runs_dry_is_noticed(table):
    blocks = cut(Rows(table), 10)
    rows, _ = BlockRows.scan(Readable(blocks), as_it_is)
    blocks.pop()
    with pytest.raises(ValueError, match="4 blocks, now 3"):
        list(rows)


def test_what_can_be_read_once_is_refused(table):
    with pytest.raises(ValueError, match="read only once"):
        open_data(iter(cut(table, 10)), WHOLE)


def test_errors_name_the_block(table):
    blocks = cut(table.astype(np.float64), 10)
    blocks[2][3, 1] = np.inf
    with pytest.raises(ValueError, match="block 2 of X contains infinity"):
        open_data(blocks, WHOLE)
    blocks[2][3, 1] = 2
    data = open_data(blocks, WHOLE)
    with pytest.raises(ValueError, match=r"block 2 of X must be binary"):
        data.encoded(make_family("bernoulli", data.moments))
    with pytest.raises(ValueError, match="block 0 has 6, block 1 has 5"):
        open_data([table, table[:, :5]], WHOLE)


def test_a_folder_must_hold_blocks(tmp_path):
    with pytest.raises(ValueError, match="found no folder"):
        Folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no .npy or .parquet file"):
        Folder(tmp_path)


def test_integers_become_numbers_an_engine_reads():
    assert as_table(np.ones((2, 2), dtype=np.int64)).dtype == np.float64


# ----------------------------------------------------------------------------- the estimator


@pytest.mark.slow
def test_a_model_of_blocks_is_the_model_of_the_table(tmp_path):
    rng = np.random.default_rng(3)
    table = make_pairs(4)[rng.integers(0, 16, 600)].astype(np.uint8)
    settings = {
        "n_experts": 8,
        "max_iter": 10,
        "learning": Annealed(min_active=4),
        "random_state": 0,
    }
    whole = DynamicPartitionModel(**settings).fit(table)
    for name, source in sources_of(table, tmp_path):
        model = DynamicPartitionModel(**settings).fit(source)
        np.testing.assert_allclose(model.means_, whole.means_, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(model.expertise_, whole.expertise_, rtol=1e-5, err_msg=name)
        assert model.n_features_in_ == 8
        np.testing.assert_allclose(
            model.activation_probabilities_, whole.activation_probabilities_, err_msg=name
        )


def test_names_of_columns_are_kept():
    polars = pytest.importorskip("polars")
    pairs = make_pairs(2)
    frame = polars.DataFrame(pairs, schema=["a", "b", "c", "d"])
    model = DynamicPartitionModel(4, max_iter=2, random_state=0).fit([frame, frame])
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]


@pytest.fixture
def frames():
    """Two data frames with the same columns, the second in another order."""
    polars = pytest.importorskip("polars")
    pairs = make_pairs(2)
    first = polars.DataFrame(pairs, schema=["a", "b", "c", "d"])
    return first, first[["d", "a", "c", "b"]]


def blocks_of(frames, kind, folder):
    """The frames as a list of pandas or polars frames, as files, or as something to read again."""
    if kind == "parquet":
        for i, frame in enumerate(frames):
            frame.write_parquet(folder / f"{i}.parquet")
        return folder
    if kind == "pandas":
        return [frame.to_pandas() for frame in frames]
    return Readable(list(frames)) if kind == "re-iterable" else list(frames)


KINDS = ["polars", "pandas", "parquet", "re-iterable"]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_matched_by_name(frames, kind, tmp_path):
    data = open_data(blocks_of(frames, kind, tmp_path), WHOLE)
    pairs = make_pairs(2)
    rows = encoded(data)
    np.testing.assert_array_equal(values_of(rows), np.tile(pairs, (2, 1)))
    np.testing.assert_array_equal(data.engine.take(rows, np.array([5])).values, pairs[1:2])
    np.testing.assert_allclose(data.moments.mean, pairs.mean(axis=0))
    assert list(data.head.columns) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", KINDS)
def test_other_columns_are_refused_by_name(frames, kind, tmp_path):
    first, second = frames
    label = "batch" if kind == "re-iterable" else "block"
    other = second.rename({"c": "x"})
    with pytest.raises(ValueError, match=f"'c' is a column of {label} 0 once, of {label} 1 never"):
        open_data(blocks_of([first, other], kind, tmp_path), WHOLE)
    with pytest.raises(ValueError, match=f"{label} 0 has 4, {label} 1 has 3"):
        open_data(blocks_of([first, second.drop("c")], kind, tmp_path), WHOLE)


def test_blocks_without_names_go_by_position(frames):
    first, second = frames
    data = open_data([first, second.to_numpy()], WHOLE)
    np.testing.assert_array_equal(values_of(encoded(data))[4:], second.to_numpy())


def test_empty_blocks_are_counted(table):
    blocks = [table[:0], table.astype(np.float64)]
    blocks[1][3, 1] = 2
    data = open_data(blocks, WHOLE)
    with pytest.raises(ValueError, match=r"block 1 of X must be binary"):
        data.encoded(make_family("bernoulli", data.moments))


def test_huge_values_are_refused_in_blocks_as_in_tables():
    wrong = [np.ones((3, 2)), np.full((3, 2), 1e200)]
    with pytest.raises(ValueError, match="too large to square"):
        DynamicPartitionModel(2).fit(wrong)
