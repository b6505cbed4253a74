"""Rules for splitting manifests that a job adds, for arrays that nobody has made one for."""

from collections.abc import Container
from dataclasses import replace

from frazil.config import RepositoryConfig
from frazil.config.effective import resolve_config
from frazil.config.split_conditions import SplitSizes
from frazil.engine.manifests import SHARED_MANIFEST_DIALECTS
from frazil.engine.state import SessionState
from frazil.format.ids import NodeId
from frazil.repository import Repository
from frazil.spark.arrays.splitting import add_rules, configured_rules, plan_rule


def add_missing_rules(state: SessionState, rewritten: Container[NodeId]) -> None:
    """Let a session split the manifests of large arrays that it has begun, and of those rewritten.

    The manifests of others stay as they are: to split them would be more work than was asked for.
    """
    rules = _plan_rules(state, rewritten)
    if rules:
        config = add_rules(state.surroundings.config, rules)
        state.surroundings = replace(
            state.surroundings, config=config, settings=resolve_config(config)
        )


def _plan_rules(state: SessionState, rewritten: Container[NodeId]) -> SplitSizes:
    if state.surroundings.dialect in SHARED_MANIFEST_DIALECTS or not state.changes.chunks:
        return ()
    configured = configured_rules(state.surroundings.config)
    rules: SplitSizes = ()
    for node in state.view.nodes():
        if node.array is None or node.id not in state.changes.chunks:
            continue
        if node.id in rewritten or not node.array.manifests:
            counts = [each.num_chunks for each in node.array.shape]
            rules = (*rules, *plan_rule(node.path, counts, None, configured))
    return rules


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
