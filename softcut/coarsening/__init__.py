"""Coarsening graphs ahead of training: matching, maximum cut, Kron reduction, and their cache."""
