"""Branches and tags: where they point, and whether their files are as they should be."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import RepoInfo
from frazil.maintenance.checking.problems import Problem, Problems, error, warning
from frazil.protocols.interface import MAIN
from frazil.protocols.reading import decode_ref_file
from frazil.protocols.ref_spelling import RefSpelling
from frazil.protocols.repo_file import REPO
from frazil.protocols.sequence_files import SequenceFile
from frazil.storage.interface import ObjectInfo, Storage

_ALPHA_BRANCH = re.compile(r"refs/branch[.:](?P<name>[^/]+)")
_DRAFT_BRANCH = re.compile(r"r/(?P<name>[^/]+)")
_V1_BRANCH = re.compile(r"refs/branch\.(?P<name>[^/]+)/ref\.json")
_TAG = re.compile(r"refs/tag[.:](?P<name>[^/]+)/ref\.json|r/(?P<draft>[^/]+)\.json")
_TOMBSTONE = ".deleted"


@dataclass(frozen=True, slots=True)
class Tip:
    """A ref, and the snapshot to which it points."""

    kind: str
    name: str
    key: str
    """The object that says so."""
    snapshot_id: SnapshotId

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


@dataclass(frozen=True, slots=True)
class FoundRefs:
    """The refs of a repository."""

    branches: tuple[Tip, ...] = ()
    tags: tuple[Tip, ...] = ()
    deleted_tags: tuple[Tip, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def tips(self) -> tuple[Tip, ...]:
        """All that keep a snapshot alive."""
        return (*self.branches, *self.tags)


@dataclass(frozen=True, slots=True)
class RefFilePlan:
    """Which files say where the refs are: pure, by their keys."""

    branches: Mapping[str, Sequence[str]]
    """The files of each branch, oldest first; in V1 it is one. Names are as keys spell them."""
    tags: Mapping[str, str]
    deleted_tags: Mapping[str, str]
    problems: tuple[Problem, ...] = ()


def refs_of(info: RepoInfo) -> FoundRefs:
    """The refs of a V2 repository."""
    return FoundRefs(
        tuple(Tip("branch", name, REPO, id) for name, id in info.branches.items()),
        tuple(Tip("tag", name, REPO, id) for name, id in info.tags.items()),
        problems=tuple(_check_repo_info_refs(info)),
    )


def _check_repo_info_refs(info: RepoInfo) -> Problems:
    if MAIN not in info.branches:
        yield error(REPO, f"there is no branch {MAIN!r}, which every repository has")
    for name in sorted(info.deleted_tags & info.tags.keys()):
        yield error(REPO, f"the tag {name!r} was deleted, and is there")


def list_ref_files(storage: Storage) -> Iterator[ObjectInfo]:
    """Whatever lies where the generations before V2 have their refs."""
    return chain(storage.list("refs/"), storage.list("r/"))


def plan_ref_files(keys: Iterable[str]) -> RefFilePlan:
    """The files that say where refs are, in the generations before V2."""
    known = set(keys)
    files = [file for file in map(SequenceFile.find, known) if file is not None]
    sequences: dict[str, list[SequenceFile]] = defaultdict(list)
    for file in sorted(files, key=lambda each: each.number):
        sequences[file.folder].append(file)
    branches = {
        match["name"]: [file.key for file in sequence]
        for folder, sequence in sequences.items()
        if (match := _ALPHA_BRANCH.fullmatch(folder) or _DRAFT_BRANCH.fullmatch(folder))
    }
    single = {match["name"]: [match[0]] for match in map(_V1_BRANCH.fullmatch, known) if match}
    tags = {m["name"] or m["draft"]: m[0] for m in map(_TAG.fullmatch, known) if m}
    deleted = {name: key for name, key in tags.items() if key + _TOMBSTONE in known}
    return RefFilePlan(
        {**branches, **single},
        {name: key for name, key in tags.items() if name not in deleted},
        deleted,
        tuple(_check_sequences(sequences, {**branches, **single})),
    )


def _check_sequences(
    sequences: Mapping[str, Sequence[SequenceFile]], branches: Mapping[str, object]
) -> Problems:
    if MAIN not in branches:
        yield error("refs/", f"there is no branch {MAIN!r}, which every repository has")
    for folder, sequence in sequences.items():
        missing = sorted(set(range(sequence[-1].number)) - {each.number for each in sequence})
        if missing:
            told = ", ".join(map(str, missing[:5])) + ("…" if len(missing) > 5 else "")
            yield warning(folder, f"moves of the branch are missing in its sequence: {told}")


def read_ref_files(storage: Storage, plan: RefFilePlan) -> FoundRefs:
    """Where the refs of a repository before V2 point."""
    problems = list(plan.problems)
    read = _Reader(storage, problems)
    newest = {name: keys[-1] for name, keys in plan.branches.items()}
    return FoundRefs(
        read.tips("branch", newest),
        read.tips("tag", plan.tags),
        read.tips("deleted tag", plan.deleted_tags),
        tuple(problems),
    )


class _Reader:
    """Reads ref files, and remembers what is wrong with them."""

    def __init__(self, storage: Storage, problems: list[Problem]) -> None:
        self._get = storage.get
        self._spelling = RefSpelling(storage.has_encoded_names)
        self._problems = problems

    def tips(self, kind: str, keys: Mapping[str, str]) -> tuple[Tip, ...]:
        found = {spelled: self.find(key) for spelled, key in sorted(keys.items())}
        return tuple(
            Tip(kind, self._spelling.read(spelled), keys[spelled], id)
            for spelled, id in found.items()
            if id is not None
        )

    def find(self, key: str) -> SnapshotId | None:
        try:
            return decode_ref_file(key, self._get(key)).snapshot_id
        except FormatError as failure:
            self._problems.append(error(key, f"it says no snapshot: {failure.message}"))
        except ObjectNotFoundError:
            pass  # deleted since it was listed
        return None
