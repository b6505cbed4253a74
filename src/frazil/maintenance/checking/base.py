"""Where a check begins: refs, history and state, read before anything is listed.

What is written afterwards is then at most an orphan, and nothing that a commit of that moment refers
to seems to be missing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from frazil.assets import Assets
from frazil.errors import FormatError, IcechunkError, ObjectNotFoundError
from frazil.format.files import decode_repo_info
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.maintenance.checking.history import Links, links_of
from frazil.maintenance.checking.ops_log import OpsLog, read_pages
from frazil.maintenance.checking.problems import Problem, Repair, error
from frazil.maintenance.checking.refs import (
    FoundRefs,
    list_ref_files,
    plan_ref_files,
    read_ref_files,
    refs_of,
)
from frazil.maintenance.checking.repo_info import check_config, check_repo_file
from frazil.protocols.config_file import KEY as CONFIG_KEY
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.ops_log import BACKUPS
from frazil.protocols.repo_file import REPO
from frazil.protocols.v2 import RepoObject
from frazil.storage.interface import Storage


@dataclass(frozen=True, slots=True)
class Base:
    """All that is known of a repository before its files are read."""

    refs: FoundRefs
    links: Links = field(default_factory=dict)
    """Of V2 repositories; older ones keep them in their snapshots."""
    listed: Mapping[SnapshotId, SnapshotInfo] = field(default_factory=dict)
    """By the repo info."""
    ops_log: OpsLog = field(default_factory=lambda: OpsLog(()))
    config: Mapping[str, JsonValue] | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def has_usable_config(self) -> bool:
        """Whether containers of virtual chunks are known."""
        return not any(check_config(self.config, CONFIG_KEY))


class UnreadableRepoError(Exception):
    """There is nothing to begin with: `repo` itself is damaged."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read_base(protocol: CommitProtocol, assets: Assets) -> Base:
    """Read where a check begins; raises UnreadableRepoError."""
    if isinstance(protocol, RepoObject):
        return _read_repo_info(assets.storage)
    plan = plan_ref_files(info.key for info in list_ref_files(assets.storage))
    refs = read_ref_files(assets.storage, plan)
    config, problems = _read_config(protocol.read_config, CONFIG_KEY)
    return Base(refs, config=config, problems=(*refs.problems, *problems))


def _read_repo_info(storage: Storage) -> Base:
    data = bytes(storage.get(REPO))
    try:
        decoded = decode_repo_info(data)
        info = decoded.value
        problems = list(check_repo_file(data, decoded))
        snapshots = list(info.snapshots.values())
        log = read_pages(info, lambda name: _find_backup(storage, name))
        list(info.latest_updates)
    except FormatError as failure:
        what = f"it can't be read: {failure.message}"
        raise UnreadableRepoError(error(REPO, what, Repair.RESTORE_REPO)) from failure
    config, config_problems = _read_config(lambda: _config_of(info), REPO)
    refs = refs_of(info)
    return Base(
        refs,
        links_of(snapshots, REPO),
        {each.id: each for each in snapshots},
        log,
        config,
        (*refs.problems, *problems, *config_problems),
    )


def _find_backup(storage: Storage, name: str) -> RepoInfo | None:
    try:
        data = storage.get(f"{BACKUPS}/{name}")
    except ObjectNotFoundError:
        return None
    info = decode_repo_info(bytes(data)).value
    list(info.latest_updates)
    return info


def _config_of(info: RepoInfo) -> dict[str, JsonValue] | None:
    tree = None if info.config is None else info.config.get()
    if tree is not None and not isinstance(tree, dict):
        raise FormatError("the configuration is no map", kind="config-deserialization")
    return tree


def _read_config(
    read: Callable[[], dict[str, JsonValue] | None], key: str
) -> tuple[Mapping[str, JsonValue] | None, Iterable[Problem]]:
    try:
        config = read()
    except IcechunkError as failure:
        return None, [error(key, f"the saved configuration can't be read: {failure.message}")]
    return config, list(check_config(config, key))
