"""Rules for splitting manifests that a job adds, for arrays that nobody has made one for."""

from collections.abc import Callable, Container
from dataclasses import replace

from frazil.config import RepositoryConfig
from frazil.config.effective import resolve_config
from frazil.config.split_conditions import SplitSizes
from frazil.engine.manifests import SHARED_MANIFEST_DIALECTS
from frazil.engine.state import SessionState
from frazil.format.ids import NodeId
from frazil.format.snapshot import Node
from frazil.repository import Repository
from frazil.spark.arrays.splitting import add_rules, configured_rules, plan_rule


def add_missing_rules(state: SessionState, rewritten: Container[NodeId]) -> None:
    """Let a session split the manifests of large arrays that it has begun, and of those rewritten.

    The manifests of others stay as they are: to split them would be more work than was asked for.
    """
    changed = state.changes.chunks
    if changed:
        _add_rules(
            state,
            lambda node: (
                node.id in changed
                and (node.id in rewritten or (node.array is not None and not node.array.manifests))
            ),
        )


def add_all_missing_rules(state: SessionState) -> None:
    """Let a session split the manifests of all large arrays."""
    _add_rules(state, lambda _: True)


def _add_rules(state: SessionState, is_for: Callable[[Node], bool]) -> None:
    if state.surroundings.dialect in SHARED_MANIFEST_DIALECTS:
        return
    configured = configured_rules(state.surroundings.config)
    rules: SplitSizes = ()
    for node in state.view.nodes():
        if node.array is not None and is_for(node):
            counts = [each.num_chunks for each in node.array.shape]
            rules = (*rules, *plan_rule(node.path, counts, None, configured))
    if rules:
        config = add_rules(state.surroundings.config, rules)
        state.surroundings = replace(
            state.surroundings, config=config, settings=resolve_config(config)
        )


def save_rules(repository: Repository, config: RepositoryConfig) -> None:
    """Save the rules of a session that its repository was not opened with, and nothing else."""
    before = configured_rules(repository.config) or ()
    rules = tuple(rule for rule in configured_rules(config) or () if rule not in before)
    if not rules:
        return
    saved = Repository.open(repository.storage)
    wanted = add_rules(saved.config, rules)
    if wanted != saved.config:
        saved.reopen(wanted).save_config()
