"""
What if the shares of the population are known?
===============================================

A web survey reached too many young people. The shares of the age classes are known from a census.
``margins`` makes the weighted shares equal to them, and ``sample_weight`` takes weights that the
survey already has.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unskew import DCKM

rng = np.random.default_rng(0)
n = 1200
age = rng.choice(["18-34", "35-54", "55+"], size=n, p=[0.6, 0.3, 0.1])
channel = np.where(rng.random(n) < np.where(age == "18-34", 0.8, 0.3), "app", "mail")
style = (rng.random(n) < np.where(age == "55+", 0.7, 0.3)).astype(int)  # two kinds of answers
answers = 1.5 * style[:, None] * [1, 1, -1, 0.5] + (channel == "app")[:, None] * [0.5, 0, 0.5, 0]
table = pd.DataFrame(answers + rng.normal(size=(n, 4)), columns=["q1", "q2", "q3", "q4"])
table["age"], table["channel"] = age, channel

census = {"age": {"18-34": 0.30, "35-54": 0.35, "55+": 0.35}}
design = rng.uniform(0.8, 1.2, size=n)  # weights of the survey itself

model = DCKM(2, suspects="channel", margins=census, random_state=0)
model.fit(table, sample_weight=design)
print("largest difference to the census:", round(model.margin_distance_, 4))
print("effective sample size:", round(model.effective_sample_size_, 2))

# %%
w = model.combined_weights_
classes = list(census["age"])
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
place = np.arange(3)
ax.bar(place - 0.25, [np.mean(age == a) for a in classes], 0.25, label="survey")
ax.bar(place, [np.average(age == a, weights=w) for a in classes], 0.25, label="weighted")
ax.bar(place + 0.25, list(census["age"].values()), 0.25, label="census")
ax.set_xticks(place, classes)
ax.set(xlabel="age", ylabel="share")
ax.legend(frameon=False)
plt.show()

# %%
# Shares of the two kinds of answers: in the survey, and under the weights. The true share under
# the census is 0.65 * 0.3 + 0.35 * 0.7 = 0.44.
second = model.labels_ == model.labels_[table.q1.argmax()]
print("survey  ", round(float(second.mean()), 2))
print("weighted", round(float(np.average(second, weights=w)), 2))
