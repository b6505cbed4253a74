"""Choices that are not all as likely: Hypothesis takes a strategy that is given twice for one."""

from typing import Any

from hypothesis import strategies as st


def weighted(*choices: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """One of several strategies, each as often as its weight says."""
    table = [strategy for weight, strategy in choices for _ in range(weight)]
    return st.sampled_from(range(len(table))).flatmap(table.__getitem__)
