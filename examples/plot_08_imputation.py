"""
Filling gaps, beside scikit-learn's imputers
============================================

A fifth of the pixels of test digits is hidden. Which method fills in most of them correctly?
"""

# %%
# Hide pixels
# -----------

import time

import numpy as np
from sklearn.experimental import enable_iterative_imputer
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_digits
from dynpart.plotting import plot_templates

digits = load_digits()
rng = np.random.default_rng(0)
hidden = rng.random(digits.test.shape) < 0.2
gappy = np.where(hidden, np.nan, digits.test.astype(float))

# %%
# Four ways to fill them
# ----------------------
# All learn from the same complete training digits.

methods = {
    "most frequent": SimpleImputer(strategy="most_frequent"),
    "nearest neighbours": KNNImputer(n_neighbors=5),
    "iterative": IterativeImputer(max_iter=2, n_nearest_features=15, random_state=0),
    "dynpart": DynamicPartitionModel(n_experts=30, max_iter=15, random_state=0),
}
train = digits.train.astype(float)
filled = {}
for name, method in methods.items():
    begin = time.perf_counter()
    method.fit(train)
    filled[name] = method.impute(gappy) if name == "dynpart" else method.transform(gappy)
    wrong = ((filled[name] > 0.5) != digits.test)[hidden].mean()
    print(f"{name:<20} {wrong:.1%} wrong, {time.perf_counter() - begin:.1f} s")

# %%
# Ten digits
# ----------
# The truth, the observed pixels (hidden pixels in gray), and the results of two methods.

seen = np.where(hidden, 0.5, digits.test)
figure = plot_templates(
    {
        "truth": digits.test[:10],
        "seen": seen[:10],
        "nearest neighbours": filled["nearest neighbours"][:10],
        "dynpart": filled["dynpart"][:10],
    },
    title="Hidden pixels filled in",
    image_shape=digits.image_shape,
)
