"""Floors and caps that hold on new data: rows to certify on, bounds, certificates."""
