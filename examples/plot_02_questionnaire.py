"""
A questionnaire with gaps
=========================

People skip questions. Here 400 people answer 20 yes-or-no questions about four topics, and a
quarter of the answers is missing. The model learns from the observed answers without imputation,
and fills the gaps afterwards.
"""

# %%
# Answers that are correlated within a topic
# ------------------------------------------
# Five questions a topic; a person is for it or against it, and one answer in twelve is a slip.

import numpy as np
import pandas as pd

from dynpart import DynamicPartitionModel
from dynpart.plotting import plot_experts

rng = np.random.default_rng(0)
topics = ["travel", "music", "sport", "cooking"]
questions = [f"{topic} {number}" for topic in topics for number in range(1, 6)]

attitude = rng.integers(0, 2, (400, 4))
answers = np.repeat(attitude, 5, axis=1) ^ (rng.random((400, 20)) < 1 / 12)
asked = rng.random(answers.shape) < 0.75
survey = pd.DataFrame(np.where(asked, answers, np.nan), columns=questions)
survey.iloc[:5, :7]

# %%
# Learn from what was observed
# ----------------------------
# Two experts a topic are enough: one for, one against.

model = DynamicPartitionModel(n_experts=8, random_state=0).fit(survey)
for number, name in enumerate(model.expert_names_):
    print(f"expert {number}: {name}")

# %%
# Each expert owns the questions of one topic.

figure = plot_experts(model)

# %%
# Fill the gaps
# -------------
# ``impute`` returns a data frame with unchanged observed answers. The truth is known here.

filled = model.impute(survey)
right = filled.to_numpy()[~asked] == answers[~asked]
most_common = survey.mode().iloc[0].to_numpy()
guess = np.broadcast_to(most_common, answers.shape)[~asked] == answers[~asked]
print(f"gaps filled correctly: {right.mean():.0%}")
print(f"by the most common answer: {guess.mean():.0%}")
