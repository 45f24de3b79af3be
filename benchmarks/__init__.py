"""Measurements of mpicomp."""
