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
from dynpart.plotting import plot_templates

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
# With ``set_output`` codes are a data frame with one column per expert.

model = pipelines["40 experts"][0].set_output(transform="pandas")
codes = model.transform(digits.test)
codes.iloc[:5, :4]

# %%
# Which expert indicates which digit?
# -----------------------------------
# The expert with the largest coefficient for each class, and its template.

coefficients = pipelines["40 experts"][-1].coef_
best = np.argmax(coefficients, axis=1)
for digit, expert in enumerate(best):
    print(f"digit {digit}: expert {expert}, weight {coefficients[digit, expert]:.1f}")

title = "The best expert for each digit from 0 to 9"
figure = plot_templates(model.means_[best], title=title, image_shape=digits.image_shape)
