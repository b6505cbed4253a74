"""The `repo` object of a V2 repository: pure checks of all that is not refs, history or ops log."""

from collections.abc import Mapping

from frazil.config import RepositoryConfig
from frazil.config.effective import resolve_config
from frazil.config.tree import decode_config
from frazil.errors import FormatError, IcechunkError
from frazil.format.dialect import Decoded, Dialect
from frazil.format.header import FileType, decode_file
from frazil.format.json_values import JsonValue
from frazil.format.repo_info import RepoInfo
from frazil.format.v2.orders import find_unordered_in_repo_info, is_ascending
from frazil.maintenance.checking.problems import Problems, error
from frazil.maintenance.checking.snapshots import check_header
from frazil.protocols.repo_file import REPO

DEFAULT_PAGE = resolve_config(RepositoryConfig()).num_updates_per_repo_info_file


def check_repo_file(data: bytes, decoded: Decoded[RepoInfo]) -> Problems:
    """The file, its header and its lists; raises FormatError where a part of it is damaged."""
    info = decoded.value
    yield from check_header(decoded.header, REPO, Dialect.V2)
    if info.spec_version != 2:
        yield error(REPO, f"it says that it is of version {info.spec_version}, and it is of 2")
    _, payload = decode_file(data, FileType.REPO_INFO)
    for name in find_unordered_in_repo_info(payload):
        yield error(REPO, f"{name} is not in order, and readers that search miss some")
    for flags in (info.enabled_feature_flags, info.disabled_feature_flags):
        if flags is not None and not is_ascending(flags):
            yield error(REPO, "feature flags are not in order")
    both = set(info.enabled_feature_flags or ()) & set(info.disabled_feature_flags or ())
    for flag in sorted(both):
        yield error(REPO, f"the feature flag {flag} is both enabled and disabled")
    yield from _check_values(info)


def _check_values(info: RepoInfo) -> Problems:
    """What is only decoded when it is asked for."""
    try:
        dict(info.metadata)
    except FormatError as failure:
        yield error(REPO, f"the repository's metadata can't be read: {failure.message}")
    for snapshot in info.snapshots.values():
        try:
            dict(snapshot.metadata)
        except FormatError as failure:
            what = f"the metadata of snapshot {snapshot.id} can't be read: {failure.message}"
            yield error(REPO, what)


def check_config(tree: Mapping[str, JsonValue] | None, key: str) -> Problems:
    """Whether a saved configuration can be used."""
    try:
        if tree is not None:
            resolve_config(decode_config(dict(tree)))
    except (IcechunkError, ValueError, TypeError) as failure:
        yield error(key, f"the saved configuration can't be used: {failure}")


def find_page_size(tree: Mapping[str, JsonValue] | None) -> int:
    """How many updates a page of the ops log may have by a saved configuration."""
    size = None if tree is None else tree.get("num_updates_per_repo_info_file")
    return size if isinstance(size, int) else DEFAULT_PAGE
