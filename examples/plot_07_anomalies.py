"""
Rows that do not fit
====================

``score_samples`` is the log-likelihood of a row. Rows with the lowest scores are outliers. Here 20
of 317 digits were turned upside down.
"""

# %%
# Learn what digits look like
# ---------------------------

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_digits
from dynpart.plotting import plot_decomposition

digits = load_digits()
model = DynamicPartitionModel(n_experts=30, max_active=6, random_state=0).fit(digits.train)

# %%
# Find the rows that do not belong
# --------------------------------
# Sevens and fours, which are not symmetric, upside down among proper test digits.

some = np.flatnonzero(np.isin(digits.test_labels, [4, 7]))[:20]
turned = digits.test[some][:, ::-1]
rows = np.vstack([digits.test, turned])
odd = np.arange(len(rows)) >= len(digits.test)

scores = model.score_samples(rows)
others = IsolationForest(random_state=0).fit(digits.train).score_samples(rows)
print("area under the ROC curve")
print(f"dynpart           {roc_auc_score(odd, -scores):.3f}")
print(f"isolation forest  {roc_auc_score(odd, -others):.3f}")

# %%
# The four least likely rows, decomposed
# --------------------------------------
# A digit, its reconstruction and its parts. The unusual pixels are those that the reconstruction
# misses.

least = rows[np.argsort(scores)[:4]]
figure = plot_decomposition(model, least, image_shape=digits.image_shape)
