"""Hypothesis strategies for values of the model."""
