"""Whether a repository is whole, and making it so again."""

from frazil.asynchronous import asynchronous
from frazil.engine.changes import ChangeSet
from frazil.engine.view import View
from frazil.maintenance.checking import (
    CheckOptions,
    CheckReport,
    RepairReport,
    Workers,
    check_repository,
    repair_repository,
)
from frazil.maintenance.doctor import DoctorReport, examine
from frazil.repository.base import RepositoryPart


class Health(RepositoryPart):
    """Check, repair, and what virtual chunks need."""

    def check(
        self, *, branch: str | None = None, deep: bool = False, virtual: bool = False
    ) -> CheckReport:
        """Look at all files of the repository, and tell everything that is wrong.

        With a branch, only at what it leads to. `deep` reads and decodes every chunk of the repository,
        `virtual` asks for every file that virtual chunks are in, of the containers that are authorized;
        with both, virtual chunks are decoded as well. Nothing is written.
        `frazil.maintenance.checking.check_storage` does it for a repository that can't be opened.
        """
        options = CheckOptions(branch, decodes_chunks=deep, asks_sources=virtual)
        return check_repository(self._protocol, self._surroundings.virtual, options)

    check_async = asynchronous(check)

    def repair(self, report: CheckReport, *, dry_run: bool = False) -> RepairReport:
        """Repair what a report names a repair for, and takes no guess; a dry run writes nothing.

        Nothing that a branch or a tag leads to is ever deleted. A repository that can't be opened is
        brought back by `frazil.maintenance.checking.restore_repo`, from the backups of `repo`.
        """
        return repair_repository(self._protocol, report, dry_run=dry_run)

    repair_async = asynchronous(repair)

    def doctor(self, *, branch: str = "main", probe: bool = True) -> DoctorReport:
        """Tell which virtual chunk containers can be read, and what to type for the others.

        With `probe` one byte is asked of a file in each container that arrays of the branch use.
        """
        assets = self._protocol.assets
        snapshot = assets.read_snapshot(self._protocol.lookup_branch(branch))
        view = View(assets, snapshot, ChangeSet.of(assets.dialect))
        return examine(view, self._surroundings.virtual, probe=probe)

    doctor_async = asynchronous(doctor)


def check_by(workers: Workers, repository: RepositoryPart, options: CheckOptions) -> CheckReport:
    """`Repository.check`, with others than threads of this process to do the work."""
    around = repository._surroundings
    return check_repository(around.protocol, around.virtual, options, workers)
