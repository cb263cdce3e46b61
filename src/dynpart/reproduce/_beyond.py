"""Proposals of the paper's discussion: intensities, and autoregressive experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart import datasets
from dynpart.reproduce._design import Data, Experiment, Picture, Result, Run, Variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_SAMPLES = 48
LARGE = 1000
"""Number of pixels from which on fewer pictures are drawn per line."""
PATCH = 16
"""Height and width of patches of photographs."""
N_PATCHES = (4000, 1000)
"""Patches for training, and for testing."""
STRIP, N_STRIPS = 64, 5
"""Columns of a strip of a photograph, and the interval of strips for testing."""
FLAT = 0.05
"""Standard deviation up to which a patch is flat and left out."""


def _gray_digits() -> Data:
    images = datasets.load_digits(binarize=False)
    return Data(images.train, images.test, images.image_shape)


def _problem(name: str) -> Callable[[], Data]:
    """Rows of the comparison's problems: all but the test rows for training."""

    def load() -> Data:
        from dynpart.comparison.problems import load_problem

        problem = load_problem(name)
        return Data(problem.train, problem.score, problem.image_shape)

    return load


def _photographs() -> Data:
    """Patches of photographs that are not flat; test patches come from separate strips."""
    from sklearn.datasets import load_sample_images
    from sklearn.feature_extraction.image import extract_patches_2d

    rng = np.random.RandomState(0)
    found: tuple[list[NDArray[Any]], list[NDArray[Any]]] = ([], [])
    for picture in load_sample_images().images:
        gray = picture.mean(axis=2) / 255
        for i, left in enumerate(range(0, gray.shape[1], STRIP)):
            strip = extract_patches_2d(gray[:, left : left + STRIP], (PATCH, PATCH))
            rows = strip.reshape(len(strip), -1)
            rows = rows[rows.std(axis=1) > FLAT]
            found[i % N_STRIPS == N_STRIPS // 2].append(rows)
    train, test = (np.concatenate(rows) for rows in found)
    drawn = [
        rng.permutation(len(rows))[:n] for rows, n in zip((train, test), N_PATCHES, strict=True)
    ]
    return Data(train[drawn[0]], test[drawn[1]], (PATCH, PATCH))


def _digits() -> Data:
    images = datasets.load_digits()
    return Data(images.train, images.test, images.image_shape)


def _draw_reconstructions(run: Run, data: Data) -> Figure:
    from dynpart.plotting import plot_reconstructions

    n_columns = 8 if data.test.shape[1] > LARGE else 16
    shown = np.linspace(0, len(data.test) - 1, 2 * n_columns).astype(int)
    return plot_reconstructions(
        run.model, data.test[shown], image_shape=data.image_shape, n_columns=n_columns
    )


def _draw_samples(run: Run, data: Data) -> Figure:
    from dynpart.comparison.ordered import draw_rows

    assert data.image_shape is not None
    return draw_rows(run.model.sample(N_SAMPLES, random_state=0), data.image_shape)


def _intensity_remarks(results: Mapping[str, Result]) -> list[str]:
    binary, gain = results.get("binary"), results.get("gain")
    remarks = [
        "Gains and offsets are integrated out under normal priors, so log P(x | h) is exact and "
        "needs no bits for them. Variances are at least the data's, the default. Codes are chosen "
        "by likelihood alone (`prior=None`), as in the paper."
    ]
    if binary and gain:
        less = 1 - gain.error / binary.error
        remarks.append(f"With gains and offsets the error is {less:.1%} less than without.")
    if gain and gain.linear_error is not None:
        remarks.append(
            "Codes with gains have two real numbers for each active expert, beside the choice of "
            f"experts. As many principal components ({gain.n_linear}) have an error of "
            f"{gain.linear_error:.4f}, where these codes have {gain.error:.4f}."
        )
    return remarks


def _order_remarks(results: Mapping[str, Result]) -> list[str]:
    plain, ordered = results.get("plain"), results.get("autoregressive")
    remarks = [
        "*Error* of autoregressive experts is the share of pixels predicted wrongly from the "
        "earlier pixels and the code; for independent pixels it is the share of wrong pixels in a "
        "reconstruction from the code. Compare code lengths instead of these errors.",
        "All experts share the weights of earlier pixels; the paper does not require this.",
    ]
    if plain and ordered:
        remarks.append(
            f"Earlier pixels shorten the code length from {plain.bits:.1f} to {ordered.bits:.1f} "
            "bits per row."
        )
    return remarks


TITLES = {None: "Binary activations", "offset": "With offsets", "gain": "With gains, too"}


def _variants(*modes: str | None, on_grid: bool = False, **sizes: int) -> tuple[Variant, ...]:
    """Experts with each amplitude; codes are chosen by likelihood alone, as in the paper."""
    settings: dict[str, Any] = sizes | {"prior": None}
    return tuple(
        Variant(mode or "binary", TITLES[mode], settings | {"amplitude": mode}, on_grid)
        for mode in modes
    )


def _intensities(name: str, title: str, setting: str, what: str, **parts: Any) -> Experiment:
    """Real-valued activations on some pictures."""
    return Experiment(
        name=name,
        title=f"Beyond: the discussion, intensities{title}",
        setting=setting,
        claim="Real-valued latent variables, in addition to the binary ones, could model "
        "intensities and contrasts.",
        pictures=(
            Picture(
                "reconstructions",
                f"Test {what} in odd rows, their reconstructions below them.",
                _draw_reconstructions,
            ),
        ),
        remarks=_intensity_remarks,
        **parts,
    )


INTENSITIES = _intensities(
    "intensities",
    "",
    "The 8 x 8 gray digits of scikit-learn, 1,500 for training and 297 for testing, 30 Gaussian "
    "experts, at most 6 active, 15 iterations.",
    "digits",
    load=_gray_digits,
    variants=_variants(None, "offset", "gain", n_experts=30, max_active=6, max_iter=15),
)
PHOTOGRAPHS = _intensities(
    "intensities-photographs",
    " of photographs",
    f"Patches of {PATCH} x {PATCH} gray pixels from the two photographs of scikit-learn, flat ones "
    f"(standard deviation up to {FLAT}) left aside: {N_PATCHES[0]:,} for training, "
    f"{N_PATCHES[1]:,} for testing, which come from every fifth strip of {STRIP} columns. 50 "
    "Gaussian experts, at most 7 active.",
    "patches",
    load=_photographs,
    variants=_variants(None, "offset", "gain", n_experts=50, max_active=7),
)
FACES = _intensities(
    "intensities-faces",
    " of faces",
    "Frey faces, 28 x 20 gray pixels, 1,572 for training and 393 for testing, 50 Gaussian experts, "
    "at most 7 active.",
    "faces",
    load=_problem("faces"),
    variants=_variants(None, "offset", "gain", n_experts=50, max_active=7),
)
LOUD_MOTORCYCLES = _intensities(
    "intensities-motorcycles",
    " of motorcycles",
    "The motorcycles of section 4.4, 750 for training and 48 for testing, 50 Gaussian experts, at "
    "most 7 active, with neighbours.",
    "images",
    load=_problem("motorcycles"),
    variants=_variants(None, "gain", on_grid=True, n_experts=50, max_active=7),
)

ORDER = Experiment(
    name="order",
    title="Beyond: the discussion, autoregressive experts",
    setting="The same digits in black and white, 30 experts, 15 iterations.",
    claim="Experts could be autoregressive models, which predict a variable from earlier ones.",
    load=_digits,
    variants=(
        Variant("plain", "Independent pixels", {"n_experts": 30, "max_active": 4, "max_iter": 15}),
        Variant(
            "autoregressive",
            "Autoregressive",
            {"n_experts": 30, "max_active": 4, "max_iter": 15, "autoregressive": "all"},
        ),
        Variant(
            "one",
            "Autoregressive, one expert per row",
            {"n_experts": 30, "max_active": 1, "max_iter": 15, "autoregressive": "all"},
        ),
    ),
    pictures=(Picture("samples", "Rows drawn from the model.", _draw_samples),),
    remarks=_order_remarks,
)
