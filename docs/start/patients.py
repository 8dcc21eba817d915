import numpy as np
import polars as pl

rng = np.random.default_rng(0)
kind = rng.integers(3, size=900)  # what we look for
site = np.where(rng.random(900) < 0.6, kind, rng.integers(3, size=900))  # the selection
table = pl.DataFrame(
    {
        "age": 40 + 12 * kind + rng.normal(0, 6, 900),
        "pressure": 115 + 8 * kind + 9 * site + rng.normal(0, 5, 900),  # each cuff is different
        "glucose": 90 + 15 * (kind == 2) - 12 * site + rng.normal(0, 6, 900),
        "smoker": rng.random(900) < np.array([0.2, 0.7, 0.3])[kind],
        "site": np.array(["North", "South", "West"])[site],
    }
)
table.write_csv("patients.csv")
pl.DataFrame({"kind": kind}).write_csv("truth.csv")
