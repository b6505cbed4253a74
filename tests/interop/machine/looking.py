"""All that can be seen of a repository or of a snapshot, through either library."""

from typing import Any

from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

FIRST_SNAPSHOT = "1CECHNKREP0F1RSTCMT0"


def look_at_repository(repository: Any) -> dict[str, Any]:
    """Refs and their histories; of V2 repositories the repo info and its log, too."""
    branches, tags = sorted(repository.list_branches()), sorted(repository.list_tags())
    seen: dict[str, Any] = {
        "branches": {name: repository.lookup_branch(name) for name in branches},
        "tags": {name: repository.lookup_tag(name) for name in tags},
        "ancestries": [list(repository.ancestry(branch=name)) for name in branches],
    }
    if int(repository.spec_version) > 1:
        seen["repo_info"] = repository.inspect_repo_info()
        seen["status"] = repository.get_status()
        seen["flags"] = {flag.name: flag.setting for flag in repository.feature_flags()}
        seen["ops_log"] = list(repository.ops_log())
    return seen


def look_at_snapshot(repository: Any, snapshot_id: str) -> dict[str, Any]:
    """What its files say, and all that it holds."""
    snapshot = repository.inspect_snapshot(snapshot_id)
    manifests = [ref["id"] for node in snapshot["nodes"] for ref in node.get("manifest_refs") or ()]
    session = repository.readonly_session(snapshot_id=snapshot_id)
    has_log = int(repository.spec_version) > 1 or snapshot_id != FIRST_SNAPSHOT
    return {
        "snapshot": snapshot,
        "log": _without_note(repository.inspect_transaction_log(snapshot_id)) if has_log else None,
        "manifests": [repository.inspect_manifest(each) for each in dict.fromkeys(manifests)],
        "manifest_files": repository.list_manifest_files(snapshot_id),
        "contents": sync(_read_all(session.store)),
    }


def _without_note(log: dict[str, Any]) -> dict[str, Any]:
    """A log without what is said to a person about it."""
    log.get("synthetic_composite", {}).pop("note", None)
    return log


async def _read_all(store: Any) -> dict[str, bytes]:
    prototype = default_buffer_prototype()
    contents = {}
    for key in sorted([key async for key in store.list()]):
        contents[key] = (await store.get(key, prototype)).to_bytes()
    return contents
