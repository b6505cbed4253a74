"""Generations before V1: draft and alpha."""
