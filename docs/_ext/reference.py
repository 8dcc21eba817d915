"""Write reference.rst: every name of `__all__` of the public modules, so that none is forgotten."""

from importlib import import_module
from pathlib import Path

MODULES = {
    "unskew": "Estimators, model files, progress",
    "unskew.diagnostics": "Did it help?",
    "unskew.plots": "Plots",
    "unskew.report": "Reports",
    "unskew.metrics": "Metrics",
    "unskew.simulate": "Simulated data with known bias",
    "unskew.datasets": "Data sets",
    "unskew.baselines": "Baselines",
    "unskew.feature_selection": "Feature selection",
    "unskew.anndata": "AnnData",
    "unskew.dask": "Dask clusters",
}


def write(folder: Path) -> None:
    lines = [
        "Reference",
        "=========",
        "",
        "Every public name. Names that start with an underscore may change.",
        "",
    ]
    for module, title in MODULES.items():
        names = [name for name in import_module(module).__all__ if not name.startswith("_")]
        summary = (import_module(module).__doc__ or "").split("\n\n")[0].replace("\n", " ")
        summary = summary.removeprefix("unskew: ")
        lines += [title, "-" * len(title), "", f"``{module}``: {summary}", ""]
        lines += [
            f".. currentmodule:: {module}",
            "",
            ".. autosummary::",
            "   :toctree: generated/",
            "   :nosignatures:",
            "",
        ]
        lines += [f"   {name}" for name in names] + [""]
    text = "\n".join(lines)
    target = folder / "reference.rst"
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")
