"""Data containers: tiles of a matrix, files and readers, tables in blocks, subsamples."""
