"""
Codes in a pipeline with a classifier
=====================================

The model is a transformer: ``Pipeline``, ``cross_val_score`` and ``set_output`` work as for any
other. Binary codes are short, readable features. For these digits they cost some accuracy: use them
if you want to see how the classifier decides.
"""

# %%
# Three kinds of features for a logistic regression
# -------------------------------------------------

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_digits

digits = load_digits()
classifier = LogisticRegression(max_iter=2000)
pipelines = {
    "64 pixels": make_pipeline(classifier),
    "40 principal components": make_pipeline(PCA(40, random_state=0), classifier),
    "40 experts": make_pipeline(
        DynamicPartitionModel(40, max_active=8, random_state=0), classifier
    ),
}
for name, pipeline in pipelines.items():
    pipeline.fit(digits.train, digits.train_labels)
    accuracy = pipeline.score(digits.test, digits.test_labels)
    print(f"{name:<24} {accuracy:.1%} of the test digits right")

# %%
# Codes as a data frame
# ---------------------
# With ``set_output`` each column is named after its expert.

model = pipelines["40 experts"][0].set_output(transform="pandas")
codes = model.transform(digits.test)
codes.iloc[:5, :6]

# %%
# Which expert indicates which digit?
# -----------------------------------
# The largest coefficient for each class.

for digit, weights in enumerate(pipelines["40 experts"][-1].coef_):
    best = int(np.argmax(weights))
    print(f"digit {digit}: expert {best}, weight {weights[best]:.1f}")
