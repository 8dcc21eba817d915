"""Benchmarks: data set x method x metric -> flat rows, and tables and figures of them.

    python -m benchmarks paper-table --quick

Modules: ``runner`` (tasks to stored rows), ``methods`` (methods that are compared), ``paper`` (the
table and figures of the paper), ``selection`` (known bias), ``sites`` (real sites and the methods
of the field; ``sites.evaluate`` takes any data set), ``speed``, ``render`` (rows to csv, Markdown,
HTML).
"""
