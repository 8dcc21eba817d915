"""Mixtures whose group shares differ by site, with additive effects of the sites.

The model of `unskew.SelectionMixture`, and the BIC by which other methods compare partitions.
"""
