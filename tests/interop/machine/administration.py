"""Random steps on the repository as a whole: refs, history, condition, configuration."""

from typing import Any

from hypothesis import strategies as st

from tests.interop.machine.edits import chunk_sets, metadata_sets
from tests.interop.machine.episodes import branches, messages, metadata, players
from tests.interop.machine.steps import (
    Build,
    Member,
    OnRepository,
    Open,
    Reconfigure,
    Reopen,
    SetDefaultCommitMetadata,
    Settings,
    Snapshot,
    Step,
    Transaction,
    WrittenAt,
)
from tests.interop.machine.weighting import weighted

tags = st.sampled_from(("t", "u", "t"))
known_snapshots = st.integers(0, 6).map(Snapshot)
snapshots: st.SearchStrategy[Any] = weighted(
    (9, known_snapshots), (1, st.sampled_from(("ZZZZZZZZZZZZZZZZZZZ0", "no id")))
)
HOUR = 3_600_000_000
"""In microseconds."""

names = st.sampled_from(("main", "dev", "dev", "other/name", ""))


def on_repository(method: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    """Calls of a method of the repository."""
    return st.builds(
        lambda found, by: OnRepository(method, found, by),
        st.fixed_dictionaries(dict(arguments)), players,
    )  # fmt: skip


def refs() -> st.SearchStrategy[Step]:
    """Making, moving, deleting and finding branches and tags."""
    dev = on_repository("create_branch", branch=st.just("dev"), snapshot_id=known_snapshots)
    return st.one_of(
        dev,
        on_repository("create_branch", branch=names, snapshot_id=snapshots),
        on_repository("delete_branch", branch=names),
        on_repository("reset_branch", branch=names, snapshot_id=snapshots),
        on_repository(
            "reset_branch", branch=names, snapshot_id=snapshots, from_snapshot_id=snapshots
        ),
        on_repository("lookup_branch", branch=names),
        on_repository("create_tag", tag=tags, snapshot_id=snapshots),
        on_repository("delete_tag", tag=tags),
        on_repository("lookup_tag", tag=tags),
    )


def _ways(prefix: str = "") -> st.SearchStrategy[dict[str, Any]]:
    """To name a snapshot, none and two of them among it."""
    one = weighted(
        (1, st.fixed_dictionaries({f"{prefix}branch": branches})),
        (1, st.fixed_dictionaries({f"{prefix}tag": tags})),
        (3, st.fixed_dictionaries({f"{prefix}snapshot_id": snapshots})),
    )
    two = st.builds(lambda a, b: {**a, **b}, one, one)
    return weighted((10, one), (1, st.just({})), (1, two))


def history() -> st.SearchStrategy[Step]:
    """What was, and what changed."""
    return st.one_of(
        st.builds(lambda way, by: OnRepository("ancestry", way, by), _ways(), players),
        st.builds(
            lambda start, end, by: OnRepository("diff", {**start, **end}, by),
            _ways("from_"), _ways("to_"), players,
        ),
        on_repository("lookup_snapshot", snapshot_id=snapshots),
        on_repository("inspect_snapshot", snapshot_id=snapshots),
        on_repository("inspect_transaction_log", snapshot_id=snapshots),
        on_repository("ops_log"),
    )  # fmt: skip


def readonly_sessions() -> st.SearchStrategy[Open]:
    """Of refs and snapshots, and of a branch at a time."""
    moments = st.builds(WrittenAt, known_snapshots, st.sampled_from((-1, 0, 1)))
    slots = st.sampled_from(("r", "s"))
    return st.one_of(
        st.builds(lambda slot, way, by: Open(slot, "readonly_session", way, by),
                  slots, _ways(), players),
        st.builds(
            lambda slot, branch, moment, by: Open(
                slot, "readonly_session", {"branch": branch, "as_of": moment}, by
            ),
            slots, branches, moments, players,
        ),
    )  # fmt: skip


def condition() -> st.SearchStrategy[Step]:
    """Metadata, status and features."""
    statuses = st.builds(
        lambda member, reason: Build(
            "RepoStatus",
            {"availability": Member("RepoAvailability", member),
             "limited_availability_reason": reason},
        ),
        st.sampled_from(("online",) * 3 + ("read_only",)), st.sampled_from((None, "repairs")),
    )  # fmt: skip
    flags = st.sampled_from(("move_node", "create_tag", "delete_tag", "no_such_flag"))
    given = metadata.filter(lambda each: each is not None)
    return st.one_of(
        on_repository("set_metadata", metadata=given),
        on_repository("update_metadata", metadata=given),
        on_repository("get_metadata"),
        on_repository("set_status", status=statuses),
        on_repository("set_status", status=statuses),
        on_repository("set_feature_flag", name=flags, setting=st.sampled_from((True, False, None))),
    )


def upkeep() -> st.SearchStrategy[Step]:
    """Expiry, garbage, manifests; what is collected is all that can be, or nothing."""
    moments = st.builds(WrittenAt, known_snapshots, st.sampled_from((0, 1)))
    cutoffs = st.builds(WrittenAt, known_snapshots, st.sampled_from((-HOUR, HOUR)))
    method = st.sampled_from(("new_commit", "new_commit", "amend"))
    return st.one_of(
        on_repository(
            "expire_snapshots",
            older_than=moments,
            delete_expired_branches=st.booleans(),
            delete_expired_tags=st.booleans(),
        ),
        on_repository("garbage_collect", delete_object_older_than=cutoffs, dry_run=st.booleans()),
        on_repository("garbage_collect", delete_object_older_than=cutoffs),
        on_repository("rewrite_manifests", message=messages, branch=branches, commit_method=method),
        on_repository("chunk_storage_stats"),
    )


def configuration() -> st.SearchStrategy[Step]:
    """Opening anew."""
    settings = st.builds(
        Settings,
        st.sampled_from((None, 0, 3, 512)),
        st.sampled_from(((), ((None, 2),), ((0, 1),), (("t", 2), (None, 3)), ((1, 2),))),
        st.sampled_from((None, None, 2, 1000)),
    )
    return st.one_of(
        st.builds(Reconfigure, settings, st.booleans()),
        st.builds(Reconfigure, settings, st.booleans()),
        st.just(Reopen()),
        st.sampled_from(({"k": 0, "who": "me"}, {})).map(SetDefaultCommitMetadata),
    )


def transactions() -> st.SearchStrategy[Step]:
    """Some keys in one go."""
    pairs = st.lists(st.one_of(metadata_sets, chunk_sets), max_size=3).map(tuple)
    return st.builds(Transaction, branches, pairs, st.booleans(), players)
