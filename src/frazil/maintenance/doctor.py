"""Check access to the virtual chunk containers of a repository, and versions of what is installed."""

import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from frazil import __version__
from frazil.display import Block, Item
from frazil.errors import IcechunkError, InvalidInputError
from frazil.format.manifest import VirtualRef
from frazil.repository.changes import ChangeSet
from frazil.repository.context import RepositoryContext
from frazil.repository.view import View
from frazil.virtual.access import VirtualChunkAccess


@dataclass(frozen=True, slots=True)
class ContainerHealth:
    """Accessibility of one container."""

    url_prefix: str | None
    """None for locations without a container."""
    name: str | None
    is_authorized: bool
    is_reachable: bool | None
    """None if it was not probed."""
    example: str | None
    """Location of a source file in it."""
    advice: str | None
    """Recommended action; None if there is no problem."""

    @property
    def is_healthy(self) -> bool:
        """Return whether no problem was found."""
        return self.advice is None

    def __str__(self) -> str:
        state = "authorized" if self.is_authorized else "not authorized"
        if self.is_reachable is not None:
            state += ", reachable" if self.is_reachable else ", not reachable"
        where = self.url_prefix or "no container"
        named = f" ({self.name})" if self.name else ""
        return f"{where}{named}: {state}" + (f"\n  {self.advice}" if self.advice else "")


@dataclass(frozen=True, slots=True, repr=False)
class DoctorReport(Block):
    """Accessibility of all containers of a repository, those with problems first."""

    containers: tuple[ContainerHealth, ...]

    @property
    def is_healthy(self) -> bool:
        """Return whether no container has a problem."""
        return all(each.is_healthy for each in self.containers)

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields of the summary."""
        yield Item("healthy", "yes" if self.is_healthy else "no")
        yield Item("containers", "\n".join(map(str, self.containers)) or "none are declared")

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "is_healthy": self.is_healthy,
            "containers": [asdict(each) for each in self.containers],
        }


def examine_branch(context: RepositoryContext, branch: str, *, probe: bool) -> DoctorReport:
    """Check all containers, with the virtual chunks at the tip of a branch."""
    assets = context.assets
    snapshot = assets.read_snapshot(context.protocol.lookup_branch(branch))
    view = View(assets, snapshot, ChangeSet.of(assets.dialect))
    return examine(view, context.virtual, probe=probe)


def examine(view: View, access: VirtualChunkAccess, *, probe: bool) -> DoctorReport:
    """Check all containers; with `probe`, read one byte of a source file in each."""
    examples = _find_examples(view, access)
    found = [
        _examine_container(access, prefix, examples.get(prefix), probe=probe)
        for prefix in access.containers
    ]
    if None in examples:
        found.append(_examine_stray(access, examples[None]))
    return DoctorReport(
        tuple(sorted(found, key=lambda each: (each.is_healthy, each.url_prefix or "")))
    )


def _find_examples(view: View, access: VirtualChunkAccess) -> Mapping[str | None, str]:
    """Return a location for each container in use; under None, one without a container."""
    examples: dict[str | None, str] = {}
    for location in _locations(view):
        try:
            examples.setdefault(access.index.find_container(location).url_prefix, location)
        except InvalidInputError:
            examples.setdefault(None, location)
        if len(examples) > len(access.containers):
            break
    return examples


def _locations(view: View) -> Iterable[str]:
    for node in view.nodes():
        if node.array is not None:
            for table in view.tables(node):
                yield from table.locations


def _examine_container(
    access: VirtualChunkAccess, prefix: str, example: str | None, *, probe: bool
) -> ContainerHealth:
    refusal = access.find_refusal(prefix)
    is_reachable, advice = None, refusal
    if refusal is None and probe and example is not None:
        advice = _probe(access, example)
        is_reachable = advice is None
    name = access.containers[prefix].name
    return ContainerHealth(prefix, name, refusal is None, is_reachable, example, advice)


def _examine_stray(access: VirtualChunkAccess, example: str) -> ContainerHealth:
    try:
        access.index.find_container(example)
    except InvalidInputError as error:
        return ContainerHealth(None, None, False, None, example, error.message)
    raise AssertionError(f"{example} has a container")


def _probe(access: VirtualChunkAccess, location: str) -> str | None:
    """Read one byte of a source file; returns the error message, or None on success."""
    try:
        access.read(VirtualRef(location, 0, 1, None), 0, 1)
    except IcechunkError as error:
        return error.message
    return None


_PACKAGES = ("zarr", "numcodecs", "numpy", "obstore", "xarray", "virtualizarr", "pyspark")


def user_agent() -> str:
    """Return the name and version of the library."""
    return f"frazil-{__version__}"


def print_debug_info() -> None:
    """Print the versions to include in a bug report."""
    print(f"platform:  {platform.platform()}")
    print(f"python:  {platform.python_version()}")
    print(f"frazil:  {__version__}")
    for name in _PACKAGES:
        try:
            print(f"{name}:  {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
