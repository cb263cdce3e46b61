"""Rows on a cluster: the bits of the blocks engine, whoever dies or joins.

Tests of what only real processes do are slow.
"""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.engines import PursuitRule, make_engine
from dynpart.engines.blocks import BlockRows, BlocksEngine
from dynpart.families import make_family
from dynpart.learning import Annealed, Task, fit_experts
from dynpart.opening import open_data
from dynpart.pursuits import pursue
from dynpart.rows import Rows
from dynpart.sources import cut, is_source

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

INNER = make_engine("reference")
BLOCK = 40


def encoded(data):
    """The rows as a fit would read them."""
    return data.encoded(make_family("auto", data.moments))


class SlowEngine:
    """The reference engine with a pause in each block, so that a test can interfere."""

    name = "slow"

    def __init__(self, pause=0.05):
        self.pause = pause

    def pursue(self, *arguments):
        time.sleep(self.pause)
        return INNER.pursue(*arguments)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(INNER, name)


def two_workers():
    """Two processes of one thread each, that keep next to nothing in memory and spill the rest."""
    settings = {
        "distributed.worker.memory.target": 1e-6,
        "distributed.scheduler.work-stealing": False,  # a worker that waits takes no rows away
        "distributed.scheduler.bandwidth": 1,  # nor is it sent any: that would take minutes
    }
    with dask.config.set(settings):
        return distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit="2GB",
            dashboard_address=":0",
            silence_logs=50,
        )


@pytest.fixture(scope="module")
def cluster():
    with two_workers() as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def threads():
    """Two workers in this process, which start at once and cannot be killed."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address=":0",
        silence_logs=50,
    ) as cluster:
        yield cluster


@pytest.fixture
def threads_client(threads):
    with distributed.Client(threads) as client:
        yield client


@pytest.fixture(scope="module")
def table():
    pairs = make_pairs(5)
    return pairs[np.random.default_rng(0).integers(0, len(pairs), 800)].astype(np.uint8)


def learn(engine, rows, moments, report=None):
    """Two iterations on drawn rows, then two on all of them."""
    return fit_experts(
        Task(engine, rows, moments, make_family("auto", moments), 10, 4, 1, 10),
        Annealed(min_active=5),
        n_init=1,
        seed=3,
        rule=PursuitRule(1, 10, np.zeros(10)),
        report=report,
    )


@pytest.fixture(scope="module")
def expected(table):
    blocks = cut(Rows(table), BLOCK)
    return learn(BlocksEngine(INNER), *BlockRows.scan(blocks, lambda block, index: block))


def assert_same(fit, expected):
    """To the last bit."""
    assert np.array_equal(fit.experts.eta, expected.experts.eta)
    assert np.array_equal(fit.experts.log2_expertise, expected.experts.log2_expertise)
    assert fit.history == expected.history
    assert fit.description == expected.description


def learn_on_cluster(table, *, inner=INNER, before_all_rows=None):
    """Fit a Dask array; `before_all_rows` is called when drawn rows have done their part."""
    data = open_data(da.from_array(table, chunks=(BLOCK, -1)), inner)

    def report(record):
        if before_all_rows is not None and record.iteration == 1:
            before_all_rows()

    return learn(data.engine, encoded(data), data.moments, report)


@pytest.mark.slow
def test_experts_are_those_of_the_blocks_engine(client, table, expected):
    assert is_source(da.from_array(table))
    assert_same(learn_on_cluster(table), expected)
    names = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
    for name in ("pursue", "gradient", "responsibility", "summary", "experts", "take"):
        assert f"dynpart-{name}" in names


@pytest.mark.slow
def test_codes_stay_where_the_rows_are(client, table, expected):
    data = open_data(da.from_array(table, chunks=(BLOCK, -1)), INNER)
    rows = encoded(data)
    codes = pursue(data.engine, rows, expected.experts, PursuitRule(1, 10, np.zeros(10)))
    distributed.wait(codes.parts)
    assert all(client.run(lambda dask_worker: len(dask_worker.data.slow)).values())  # spilled
    held = client.run(lambda dask_worker: set(dask_worker.data)).values()
    for block, part in zip(rows.blocks, codes.parts, strict=True):
        assert any({block.key, part.key} <= keys for keys in held)


@pytest.mark.slow
@pytest.mark.parametrize("n_killed", [1, 2])
def test_killed_workers_change_nothing(table, expected, n_killed):
    """With both dead nobody holds rows, codes or experts any more: all are made again."""
    with two_workers() as cluster, distributed.Client(cluster) as client:
        victims = list(client.run(os.getpid).values())[:n_killed]
        killed = threading.Event()

        def kill():
            for process in victims:
                os.kill(process, signal.SIGKILL)
            killed.set()

        fit = learn_on_cluster(
            table,
            inner=SlowEngine(),  # half a second for all rows
            before_all_rows=lambda: threading.Timer(0.3, kill).start(),
        )
        assert killed.is_set()
        assert not set(victims) & set(client.run(os.getpid).values())
    assert_same(fit, expected)


@pytest.mark.slow
def test_a_late_worker_is_welcome(client, cluster, table, expected):
    def join():
        cluster.scale(3)
        client.wait_for_workers(3, timeout=60)

    try:
        fit = learn_on_cluster(table, inner=SlowEngine(), before_all_rows=join)
    finally:
        cluster.scale(2)
    assert_same(fit, expected)


@pytest.mark.slow
def test_a_slow_worker_changes_nothing(client, table, expected):
    slow = next(iter(client.run(os.getpid).values()))
    over = threading.Event()

    def hold_up():
        while not over.wait(0.05):
            os.kill(slow, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(slow, signal.SIGCONT)

    nuisance = threading.Thread(target=hold_up)
    nuisance.start()
    try:
        fit = learn_on_cluster(table)
    finally:
        over.set()
        nuisance.join()
    assert_same(fit, expected)


@pytest.mark.slow
def test_empty_chunks_and_unknown_sizes_are_fine(client, table, expected):
    X = da.concatenate(
        [
            da.from_array(table[:0], chunks=(1, -1)),
            da.from_array(table, chunks=(BLOCK, -1)),
        ]
    )
    X._chunks = ((np.nan,) * len(X.chunks[0]), X.chunks[1])
    data = open_data(X, INNER)
    assert encoded(data).sizes.tolist() == [BLOCK] * 20
    assert_same(learn(data.engine, encoded(data), data.moments), expected)


def test_columns_in_chunks_are_refused(threads_client, table):
    with pytest.raises(ValueError, match=r"along rows only, found 2 chunks of columns"):
        open_data(da.from_array(table, chunks=(BLOCK, 5)), INNER)
    with pytest.raises(ValueError, match="two dimensions"):
        open_data(da.from_array(table[0]), INNER)


def test_errors_come_from_the_workers_with_the_block(threads_client, table):
    wrong = table.astype(np.float64)
    wrong[130, 2] = np.inf
    with pytest.raises(ValueError, match="block 3 of X contains infinity"):
        open_data(da.from_array(wrong, chunks=(BLOCK, -1)), INNER)
    wrong[130, 2] = 0.5
    data = open_data(da.from_array(wrong, chunks=(BLOCK, -1)), INNER)
    with pytest.raises(ValueError, match="block 3 of X must be binary"):
        data.encoded(make_family("bernoulli", data.moments))


def fails_at_first(block, flag, block_info=None):
    """The chunk as it is, but the third one fails as long as there is a file to take away."""
    if block_info and block_info[0]["chunk-location"][0] == 2 and os.path.exists(flag):
        os.remove(flag)
        raise OSError("a disk was away for a moment")
    return block


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["lazy", "persisted"])
def test_a_chunk_that_fails_once_does_not_spoil_later_fits(client, table, tmp_path, kept):
    flag = tmp_path / "flag"
    flag.touch()
    X = da.from_array(table, chunks=(200, -1)).map_blocks(
        fails_at_first, str(flag), dtype=table.dtype, meta=np.empty((0, 0), table.dtype)
    )
    model = DynamicPartitionModel(10, max_iter=2, learning=Annealed(min_active=5), random_state=0)
    if kept:
        # The chunk has failed before the fit begins, which asks for it again.
        X = X.persist()
        distributed.wait(X)
        assert [future.status for future in distributed.futures_of(X)].count("error") == 1
    else:
        with pytest.raises(OSError, match="for a moment") as caught:
            model.fit(X)
        assert caught.value is not None  # somebody still looks at the error, and what it holds
        assert not hasattr(model, "means_")
    model.fit(X)
    expected = clone(model).fit(cut(table, 200))
    np.testing.assert_array_equal(model.means_, expected.means_)
    np.testing.assert_array_equal(model.transform(X).compute(), expected.transform(table))


def fails_again(block, flag):
    """The chunk as it is, once a file is there; an error before."""
    if not os.path.exists(flag):
        raise OSError("no file yet")
    return block


def test_a_chunk_that_fails_each_time_fails_each_time(threads_client, table, tmp_path):
    """And each time it is really asked for, until it can be read."""
    flag = tmp_path / "flag"
    X = da.from_array(table, chunks=(200, -1)).map_blocks(
        fails_again, str(flag), dtype=table.dtype, meta=np.empty((0, 0), table.dtype)
    )
    errors = []
    for _ in range(2):
        with pytest.raises(OSError, match="no file yet") as caught:
            open_data(X, INNER)
        errors.append(caught.value)
    flag.touch()
    assert open_data(X, INNER).moments.n_rows == len(table)


def test_without_a_client_the_error_says_how_to_start_one(table):
    with pytest.raises(ValueError, match="needs a running client"):
        open_data(da.from_array(table), INNER)


def test_dask_is_imported_only_when_asked_for():
    code = "import sys, dynpart, dynpart.sources, dynpart.estimator; print('dask' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert answer.stdout.strip() == "False"


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    from dynpart.engines.dask import cluster_client

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'dynpart\[dask\]'"):
        cluster_client()


# ----------------------------------------------------------------------------- the estimator


def test_a_model_of_a_dask_array_is_that_of_its_blocks(threads_client, table):
    settings = {
        "n_experts": 10,
        "max_iter": 4,
        "learning": Annealed(min_active=5),
        "random_state": 0,
    }
    X = da.from_array(table, chunks=(200, -1))
    model = DynamicPartitionModel(**settings).fit(X)
    of_blocks = DynamicPartitionModel(**settings).fit(cut(table, 200))
    assert np.array_equal(model.means_, of_blocks.means_)
    assert np.array_equal(model.expertise_, of_blocks.expertise_)
    assert np.array_equal(model.activation_probabilities_, of_blocks.activation_probabilities_)


def test_encoding_is_lazy_and_chunk_by_chunk(table):
    """Any scheduler of Dask's will do; here its threads."""
    model = DynamicPartitionModel(10, max_iter=2, random_state=0).fit(table)
    X = da.from_array(table, chunks=(200, -1))
    H, scores = model.transform(X), model.score_samples(X)
    assert isinstance(H, da.Array)
    assert H.chunks == ((200,) * 4, (10,))
    assert H.dtype == np.uint8
    assert np.array_equal(H.compute(scheduler="threads"), model.transform(table))
    asked = []

    def counted(block):
        asked.append(len(block))
        return block

    watched = X.map_blocks(counted, dtype=X.dtype, meta=np.empty((0, 0), X.dtype))
    later = model.transform(watched)
    assert not asked
    later[:300].compute(scheduler="sync")
    assert asked == [200, 200]
    assert scores.chunks == ((200,) * 4,)
    np.testing.assert_allclose(scores.compute(scheduler="sync"), model.score_samples(table))
    assert model.score(X) == pytest.approx(model.score(table))
    with pytest.raises(ValueError, match="X has 9 features, but the model expects 10"):
        model.transform(X[:, :9])
    with pytest.raises(ValueError, match="along rows only"):
        model.transform(X.rechunk((200, 5)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_was_said_of_columns_holds_on_a_cluster(client):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.poisson(3, 60), rng.choice([2, 4, 7], 60), rng.normal(size=60)])
    said = {0: "count", 1: "categorical"}
    model = DynamicPartitionModel(3, max_iter=3, random_state=0, columns=said, engine="cpu")
    D = da.from_array(X, chunks=(20, 3))
    model.fit(D)
    assert model.schema_ == model.judge(X)
    assert model.schema_.levels_of(1) == ("2", "4", "7")
    np.testing.assert_array_equal(np.asarray(model.transform(D)), model.transform(X))
