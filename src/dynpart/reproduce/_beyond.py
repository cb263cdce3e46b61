"""What the paper's discussion asks for: intensities, and autoregressive experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dynpart import datasets
from dynpart.reproduce._design import Data, Experiment, Picture, Result, Run, Variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_SAMPLES = 48


def _gray_digits() -> Data:
    images = datasets.load_digits(binarize=False)
    return Data(images.train, images.test, images.image_shape)


def _digits() -> Data:
    images = datasets.load_digits()
    return Data(images.train, images.test, images.image_shape)


def _draw_reconstructions(run: Run, data: Data) -> Figure:
    from dynpart.plotting import plot_reconstructions

    return plot_reconstructions(
        run.model, data.test[:16], image_shape=data.image_shape, n_columns=16
    )


def _draw_samples(run: Run, data: Data) -> Figure:
    from dynpart.comparison.ordered import draw_rows

    assert data.image_shape is not None
    return draw_rows(run.model.sample(N_SAMPLES, random_state=0), data.image_shape)


def _intensity_remarks(results: Mapping[str, Result]) -> list[str]:
    binary, gain = results.get("binary"), results.get("gain")
    remarks = [
        "Gains and offsets are integrated out under normal priors, so log P(x | h) is exact and "
        "needs no bits for them. Variances are at least the data's, the default."
    ]
    if binary and gain:
        less = 1 - gain.error / binary.error
        remarks.append(f"With gains and offsets the error is {less:.1%} less than without.")
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


INTENSITIES = Experiment(
    name="intensities",
    title="Beyond: the discussion, intensities",
    setting="The 8 x 8 gray digits of scikit-learn, 1,500 for training and 297 for testing, 30 "
    "Gaussian experts, at most 6 active, 15 iterations.",
    claim="Real-valued latent variables, in addition to the binary ones, could model intensities "
    "and contrasts.",
    load=_gray_digits,
    variants=tuple(
        Variant(
            mode or "binary",
            {None: "Binary activations", "offset": "With offsets"}.get(mode, "With gains, too"),
            {"n_experts": 30, "max_active": 6, "max_iter": 15, "amplitude": mode},
        )
        for mode in (None, "offset", "gain")
    ),
    pictures=(
        Picture(
            "reconstructions",
            "Test digits in odd rows, their reconstructions below them.",
            _draw_reconstructions,
        ),
    ),
    remarks=_intensity_remarks,
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
