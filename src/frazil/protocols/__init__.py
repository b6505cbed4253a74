"""Commit protocols: move branches safely, one protocol per format generation, one interface."""
