"""A child process that has the official library, and answers questions about repositories.

It runs on an interpreter of its own (`python -m tests.interop.official`), because the official library
needs a newer Python than Frazil does. Nothing here may import Frazil.
"""
