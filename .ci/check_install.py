"""Check an installed wheel: python check_install.py [EXTRA]. Run outside of the checkout."""

import sys
from importlib import import_module

import numpy as np

BASE = (
    *("unskew", "unskew.anndata", "unskew.baselines", "unskew.datasets", "unskew.diagnostics"),
    *("unskew.feature_selection", "unskew.metrics", "unskew.simulate"),
)
EXTRAS = {
    "": (),
    "plot": ("unskew.plots",),
    "report": ("unskew.plots", "unskew.report"),
    "io": ("polars", "pyarrow", "skops"),
    "survey": ("pyreadstat", "fastexcel"),
    "cli": ("unskew.cli", "unskew.plots", "unskew.report"),
    "data": ("pooch", "pandas"),
    "dask": ("unskew.dask",),
}


def main(extra: str) -> None:
    for module in (*BASE, *EXTRAS[extra]):
        import_module(module)
    import unskew
    from unskew.simulate import make_sites

    data = make_sites(300, n_clusters=2, n_sites=2, n_features=4, rate=0.5, random_state=0)
    for model in (
        unskew.SelectionMixture(2, suspects=data.suspects, random_state=0),
        unskew.DCKM(2, suspects=data.suspects, n_init=2, random_state=0),
    ):
        labels = model.fit_predict(data.X)
        agreement = unskew.metrics.adjusted_rand_score(data.y, labels)
        if np.unique(labels).size != 2 or agreement < 0.5:
            sys.exit(f"{type(model).__name__}: agreement {agreement:.2f} with the groups")
    if extra == "report":
        from unskew.diagnostics import diagnose
        from unskew.report import to_html

        to_html(diagnose(model, data.X))
    print(f"unskew {unskew.__version__} [{extra}]: ok, {unskew.__file__}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
