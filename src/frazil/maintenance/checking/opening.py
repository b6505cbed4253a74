"""Checking the repository in a storage, also one that does not open."""

from frazil.assets import Assets
from frazil.config.effective import resolve_config
from frazil.config.tree import decode_config
from frazil.errors import FormatError, IcechunkError, ObjectNotFoundError, RepositoryNotFoundError
from frazil.format.dialect import Dialect
from frazil.format.files import decode_snapshot
from frazil.maintenance.checking.performing import CheckOptions, check_repository
from frazil.maintenance.checking.problems import Repair, error
from frazil.maintenance.checking.refs import list_ref_files, plan_ref_files
from frazil.maintenance.checking.repairing import RepairReport, repair_repository
from frazil.maintenance.checking.report import CheckReport, Counts
from frazil.maintenance.checking.restoring import list_backups
from frazil.maintenance.checking.workers import Workers
from frazil.protocols.detection import open_protocol
from frazil.protocols.interface import CommitProtocol, UpdatePolicy
from frazil.protocols.reading import find_object
from frazil.protocols.repo_file import REPO
from frazil.protocols.sequences import SequenceFiles
from frazil.protocols.v1 import RefFiles
from frazil.protocols.v2 import RepoObject
from frazil.storage.interface import Storage
from frazil.virtual.access import VirtualChunkAccess

_AGES = list(Dialect)
_V1_ENDING = "/ref.json"


def check_storage(
    storage: Storage, options: CheckOptions | None = None, workers: Workers | None = None
) -> CheckReport:
    """Check the repository in a storage; raises RepositoryNotFoundError where nothing is left of one.

    No virtual chunk container is authorized: `Repository.check` knows those that are.
    """
    if find_object(storage, REPO) is None and next(list_backups(storage), None) is not None:
        problem = error(REPO, "it is gone, and backups of it are there", Repair.RESTORE_REPO)
        return CheckReport(Dialect.V2.value, (problem,), Counts())
    protocol = open_anyway(storage)
    return check_repository(protocol, _find_access(protocol), options or CheckOptions(), workers)


def repair_storage(storage: Storage, report: CheckReport, *, dry_run: bool = False) -> RepairReport:
    """Repair what a report names a repair for, also in a repository that does not open."""
    return repair_repository(open_anyway(storage), report, dry_run=dry_run)


def open_anyway(storage: Storage) -> CommitProtocol:
    """The protocol of a repository, some of whose files may be damaged or gone."""
    try:
        return open_protocol(storage)
    except (FormatError, ObjectNotFoundError, RepositoryNotFoundError) as failure:
        if find_object(storage, REPO) is not None or any(True for _ in list_backups(storage)):
            return RepoObject(Assets(storage, Dialect.V2), UpdatePolicy())
        plan = plan_ref_files(info.key for info in list_ref_files(storage))
        if not plan.branches:
            raise failure
        if all(key.endswith(_V1_ENDING) for keys in plan.branches.values() for key in keys):
            return RefFiles(Assets(storage, Dialect.V1))
        # Only the files of the older generations tell which one it is, and one of them did not.
        return SequenceFiles(Assets(storage, _guess_dialect(storage)))


def _guess_dialect(storage: Storage) -> Dialect:
    if any(True for _ in storage.list("r/")):
        return Dialect.DRAFT
    found = [_find_dialect(storage, info.key) for info in storage.list("snapshots/")]
    known = [each for each in found if each is not None]
    if any(True for _ in storage.list("transactions/")):
        # Snapshots of the first alphas, which had no logs, look like those that followed.
        known.append(Dialect.ALPHA_B)
    return max(known, key=_AGES.index, default=Dialect.ALPHA_H)


def _find_dialect(storage: Storage, key: str) -> Dialect | None:
    try:
        return decode_snapshot(bytes(storage.get(key))).dialect
    except (FormatError, ObjectNotFoundError):
        return None


def _find_access(protocol: CommitProtocol) -> VirtualChunkAccess:
    """Access to the containers of the saved configuration, as far as that can be read."""
    try:
        saved = protocol.read_config()
        containers = () if saved is None else resolve_config(decode_config(saved)).containers
    except (IcechunkError, ValueError, TypeError):
        containers = ()
    return VirtualChunkAccess({each.url_prefix: each for each in containers}, {})
