"""Measurements: data set x method x metric -> flat rows; tables and figures made from them.

    python -m benchmarks paper-table --quick

Modules: ``runner`` (tasks to stored rows), ``methods`` (what is compared), ``paper`` (the
table and figures of the paper), ``selection`` (known bias), ``speed``, ``render`` (rows to csv,
Markdown, html).
"""
