"""Maintenance commands: stats, check, gc, expire, migrate, doctor."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from frazil.cli.command import (
    Authorize,
    Cluster,
    DryRun,
    Place,
    Spark,
    Yes,
    argument,
    load_spark,
    open_place,
    option,
    parse_moment,
)
from frazil.cli.terminal import Output, clean, make_card, make_table
from frazil.display import show_bytes
from frazil.errors import (
    ErrorKind,
    FormatError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SessionStateError,
    SetupError,
)
from frazil.lazy import lazy_modules

if TYPE_CHECKING:
    from frazil.maintenance import check as checks
    from frazil.maintenance import migrate as migration
    from frazil.maintenance.findings import CheckReport
    from frazil.maintenance.repair import RepairReport
    from frazil.ops import GCSummary
    from frazil.repository import repository
    from frazil.storage import constructors
else:
    checks, migration, repository, constructors = lazy_modules(
        "frazil.maintenance.check",
        "frazil.maintenance.migrate",
        "frazil.repository.repository",
        "frazil.storage.constructors",
    )

OlderThan = Annotated[
    str,
    option(
        "--older-than",
        metavar="AGE",
        help="An age, such as 7d or 12h, or a time, 2026-01-31T12:00Z.",
    ),
]
_DAMAGED = 8
_STORAGE_FAILED = 7


def stats(url: Place, *, spark: Spark = False, cluster: Cluster, output: Output) -> None:
    """Show how many bytes the chunks of all versions take.

    Examples
    --------
    frazil stats data/weather
    """
    repo = open_place(url)
    on_spark = cluster.is_wanted(spark)
    found = cluster.run("stats", repo) if on_spark else repo.chunk_storage_stats()
    rows = [
        ("native", show_bytes(found.native_bytes)),
        ("inline", show_bytes(found.inlined_bytes)),
        ("virtual", show_bytes(found.virtual_bytes)),
    ]
    plain = {
        "native_bytes": found.native_bytes,
        "inlined_bytes": found.inlined_bytes,
        "virtual_bytes": found.virtual_bytes,
    }
    output.answer(plain, make_table(("chunks", ">size"), rows))


def check(
    url: Place,
    *,
    branch: Annotated[str | None, option("--branch", "-b", help="Check only this branch.")] = None,
    deep: Annotated[bool, option(help="Decode every chunk.")] = False,
    virtual: Annotated[bool, option(help="Check the source files of virtual chunks.")] = False,
    repair: Annotated[bool, option(help="Make all safe repairs.")] = False,
    authorize: Authorize = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    spark: Spark = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Find everything that is wrong with a repository; exit code 8 if something is lost.

    After a repair the repository is checked again, and the exit code reports the result.

    Examples
    --------
    frazil check data/weather --deep
    frazil check data/weather --repair --dry-run
    frazil check s3://bucket/weather --deep --spark
    """

    def look() -> CheckReport:
        repo = _open_anyway(url, authorize)
        if repo is not None and branch is not None and branch not in repo.list_branches():
            raise RefNotFoundError(f"there is no branch {branch!r}")
        if cluster.is_wanted(spark):
            found: CheckReport = cluster.run(
                "check", repo or url, branch=branch, deep=deep, virtual_sources=virtual
            )
            return found
        if repo is not None:
            return repo.check(branch=branch, deep=deep, virtual=virtual)
        options = checks.CheckOptions(branch, decodes_chunks=deep, asks_sources=virtual)
        return checks.check_storage(constructors.storage_from_url(url), options)

    def mend(report: CheckReport, *, dry_run: bool) -> RepairReport:
        repo = _open_anyway(url)
        if repo is not None:
            return repo.repair(report, dry_run=dry_run)
        return checks.repair_storage(constructors.storage_from_url(url), report, dry_run=dry_run)

    report = look()
    if not repair:
        output.answer(report, clean(str(report)).rstrip())
        raise Exit(0 if report.is_healthy else _DAMAGED)
    planned = mend(report, dry_run=True)
    if dry_run or not planned.repaired:
        planned = replace(planned, is_dry_run=dry_run)
        result = {"check": report, "repair": planned, "check_after": None}
        output.answer(result, clean(str(report)), clean(str(planned)))
        raise Exit(0 if report.is_healthy else _DAMAGED)
    output.note(str(planned))
    output.confirm("Repair this?", is_agreed=yes)
    done = mend(report, dry_run=False)
    after = look()
    result = {"check": report, "repair": done, "check_after": after}
    output.answer(result, clean(str(done)), clean(str(after)).rstrip())
    raise Exit(0 if after.is_healthy else _DAMAGED)


def _open_anyway(url: str, authorize: Sequence[str] | None = None) -> repository.Repository | None:
    """Open the repository; None if it can't be opened, but its objects can be checked."""
    try:
        return open_place(url, authorize)
    except (FormatError, ObjectNotFoundError, RepositoryNotFoundError):
        return None


def gc(
    url: Place,
    *,
    older_than: OlderThan,
    dry_run: DryRun = False,
    yes: Yes = False,
    spark: Spark = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Delete what no version needs, if it is old enough that no running job does either.

    Examples
    --------
    frazil gc data/weather --older-than 7d --dry-run
    frazil gc data/weather --older-than 7d --yes
    frazil gc s3://bucket/weather --older-than 7d --spark --yes
    """
    repo, cutoff = open_place(url), parse_moment(older_than)

    def collect(*, dry_run: bool) -> GCSummary:
        if not cluster.is_wanted(spark):
            return repo.garbage_collect(cutoff, dry_run=dry_run)
        found: GCSummary = cluster.run("collect_garbage", repo, cutoff, dry_run=dry_run).summary
        return found

    if not dry_run and not yes:
        planned = collect(dry_run=True)
        dry_run = _count(planned) == 0  # and nothing is to be asked
    if not dry_run and not yes:
        output.note(f"would delete {_count(planned)} objects, {show_bytes(planned.bytes_deleted)}")
        output.confirm("Delete them?", is_agreed=False)
    done = collect(dry_run=dry_run)
    word = "would be deleted" if dry_run else "deleted"
    rows = [
        (name, f"{getattr(done, f'{name}_deleted'):,}")
        for name in ("chunks", "manifests", "snapshots", "attributes", "transaction_logs")
    ]
    output.answer(
        done,
        make_table((word, ">count"), [*rows, ("bytes", show_bytes(done.bytes_deleted))]),
        *([f"{done.objects_failed_to_delete} could not be deleted"]
          if done.objects_failed_to_delete else []),
    )  # fmt: skip
    if done.objects_failed_to_delete:
        raise Exit(_STORAGE_FAILED)


def _count(summary: GCSummary) -> int:
    return (
        summary.chunks_deleted
        + summary.manifests_deleted
        + summary.snapshots_deleted
        + summary.attributes_deleted
        + summary.transaction_logs_deleted
    )


def expire(
    url: Place,
    *,
    older_than: Annotated[
        str | None,
        option("--older-than", metavar="AGE", help="By default, the saved policies apply."),
    ] = None,
    delete_branches: Annotated[bool, option(help="Also delete branches that are as old.")] = False,
    delete_tags: Annotated[bool, option(help="Also delete tags that are as old.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output,
) -> None:
    """Take old versions out of the history; `gc` deletes their files afterwards.

    Examples
    --------
    frazil expire data/weather --older-than 90d --yes
    frazil expire data/weather --dry-run
    """
    repo = open_place(url)
    if older_than is None:
        released = repo.expire(dry_run=True).released_snapshots
        question = f"Expire {len(released)} snapshots, by the saved policies?"
    else:
        cutoff = parse_moment(older_than)
        which = {"delete_expired_branches": delete_branches, "delete_expired_tags": delete_tags}
        released = repo.find_expired_snapshots(cutoff, **which)
        question = f"Expire {len(released)} snapshots from before {cutoff:%F %T}?"
    if released and not dry_run:
        output.confirm(question, is_agreed=yes)
        if older_than is None:
            released = repo.expire().released_snapshots
        else:
            released = repo.expire_snapshots(cutoff, **which)
    word = "would be released" if dry_run else "released"
    output.answer(
        {"released_snapshots": released, "dry_run": dry_run}, f"{len(released)} snapshots {word}"
    )


def migrate(url: Place, *, dry_run: DryRun = False, yes: Yes = False, output: Output) -> None:
    """Bring a repository of an older generation to the newest, V2, while nobody uses it.

    Examples
    --------
    frazil migrate data/old --dry-run
    frazil migrate data/old --yes
    """
    repo = open_place(url)
    before = repo.dialect.value
    found = {"url": url, "from": before, "to": before, "dry_run": dry_run, "is_migrated": False}
    try:
        migration.upgrade_icechunk_repository(repo, dry_run=True)
    except SessionStateError as error:
        if error.kind != ErrorKind.INVALID_REPOSITORY_MIGRATION:
            raise
        output.answer(found, f"{url} already is V2: there is nothing to migrate")
        return
    if not dry_run:
        output.confirm(
            f"Migrate {url} from {before}? Nobody else may use it meanwhile.", is_agreed=yes
        )
    after = migration.upgrade_icechunk_repository(repo, dry_run=dry_run).dialect.value
    result = "can be migrated" if dry_run else f"is {after} now"
    found |= {"to": after, "is_migrated": not dry_run}
    output.answer(found, f"{url}, generation {before}, {result}")


_PACKAGES = ("frazil", "zarr", "obstore", "numpy", "xarray", "pyarrow", "pyspark", "virtualizarr")


def doctor(
    url: Annotated[
        str | None, argument(metavar="[URL]", help="Repository to check as well.")
    ] = None,
    *,
    authorize: Authorize = None,
    spark: Annotated[
        bool, option("--spark", help="Open a Spark session, and list what its workers lack.")
    ] = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Show what is installed, whether Java is there for Spark, and whether virtual chunks can be read.

    Examples
    --------
    frazil doctor
    frazil doctor data/weather --authorize '*'
    frazil doctor --spark --master spark://host:7077
    """
    installed = {name: _find_version(name) for name in _PACKAGES}
    java = _find_java()
    report = open_place(url, authorize).doctor() if url is not None else None
    session = cluster.session() if cluster.is_wanted(spark) else None
    problems = load_spark().check_session(session) if session is not None else []
    found = {
        "python": platform.python_version(),
        "packages": installed,
        "java": java,
        "containers": report.containers if report is not None else None,
        "spark": session.version if session is not None else None,
        "problems": [str(each) for each in problems],
    }
    card = make_card(
        [
            ("python", platform.python_version()),
            *((name, text or "not installed") for name, text in installed.items()),
            (
                "java",
                java or "not found: Spark needs Java; pip install 'frazil[spark]' includes it",
            ),
        ]
    )
    output.answer(found, card, *([clean(str(report)).rstrip()] if report is not None else []))
    is_healthy = report is None or report.is_healthy
    if not is_healthy or any(each.is_fatal for each in problems):
        raise Exit(1)


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _find_java() -> str | None:
    try:
        from frazil.spark.spark_session import find_java_home  # noqa: PLC0415 (an extra)

        home = find_java_home(os.environ)
    except (ImportError, SetupError):
        return None
    return str(home) if home is not None else shutil.which("java")
