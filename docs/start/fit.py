import polars as pl
from sklearn.cluster import KMeans

from unskew import SelectionMixture
from unskew.diagnostics import diagnose
from unskew.metrics import adjusted_rand_score

table, kind = pl.read_csv("patients.csv"), pl.read_csv("truth.csv")["kind"]
model = SelectionMixture(3, suspects="site", random_state=0).fit(table)
plain = KMeans(3, n_init=10, random_state=0).fit(table.drop("site"))

print("k-means         ", round(adjusted_rand_score(kind, plain.labels_), 2))
print("SelectionMixture", round(adjusted_rand_score(kind, model.labels_), 2))
print("identified_     ", model.identified_)
print(diagnose(model, table).verdict.word)
print(model.shares_.round(2))
