"""Chunk payloads, and rows of references gathered into tables.

The first alphas (0.1.0a1 to a5) copied references of other arrays into an array's entries, some with
a wrong number of axes, and later ones carried them along; a manifest alone can't say which number is
right. Rule kept here: nothing is thrown away. References are `RankedRefs`, which answer for as many
axes as they are asked for, and are written back whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from frazil.errors import FormatError, InvalidInputError
from frazil.format.checked import UINT64_MAX, as_int, as_variant, refused, show
from frazil.format.chunks import ChunkTable
from frazil.format.ids import ChunkId, NodeId
from frazil.format.manifest import ChunkRefs, Manifest
from frazil.format.native_chunks import NativeChunks
from frazil.format.references import ChunkRef, InlineRef, NativeRef, VirtualRef
from frazil.format.trees.form import TreeForm

_REF_FIELDS = ("id", "offset", "length")

Row = tuple[NodeId, tuple[int, ...], ChunkRef]
PayloadRows = list[tuple[tuple[int, ...], dict[str, object]]]


@dataclass(frozen=True, slots=True, eq=False)
class RankedRefs:
    """References of one node, apart by their number of axes."""

    tables: tuple[ChunkTable, ...]
    """One for each number of axes, ascending."""
    id_size: int

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def __eq__(self, other: object) -> bool:
        """Equal references; a `ChunkTable` can have them as well."""
        if isinstance(other, ChunkTable):
            return self.tables == (other,)
        return isinstance(other, RankedRefs) and self.tables == other.tables

    __hash__ = None  # type: ignore[assignment]

    def find(self, wanted: Sequence[int]) -> ChunkRef | None:
        """The reference of one chunk among those with as many axes as are wanted."""
        return self.with_axes(len(wanted)).find(wanted)

    def with_axes(self, axes: int) -> ChunkTable:
        """The references that fit an array of so many axes; the others are not its own."""
        matching = (table for table in self.tables if table.axes == axes)
        return next(matching, None) or ChunkTable.empty(axes, self.id_size)

    def table(self) -> ChunkTable:
        """The largest table, of equals the one with most axes: the best guess without the array."""
        if not self.tables:
            return ChunkTable.empty(0, self.id_size)
        return max(reversed(self.tables), key=len)

    def natives(self) -> NativeChunks:
        """What the native ones name, whatever their number of axes: any of them may be the array's."""
        tables = self.tables or (ChunkTable.empty(0, self.id_size),)
        parts = [table.natives() for table in tables]
        return NativeChunks(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.lengths for part in parts]),
        )


def gather_rows(rows: Iterable[Row], id_size: int) -> dict[NodeId, ChunkRefs]:
    """References by node; of two rows at one coordinate the later one stays."""
    nodes: dict[NodeId, dict[int, dict[tuple[int, ...], ChunkRef]]] = {}
    for node_id, coordinates, ref in rows:
        nodes.setdefault(node_id, {}).setdefault(len(coordinates), {})[coordinates] = ref
    return {
        node_id: RankedRefs(
            tuple(ChunkTable.of(axes, by_axes[axes], id_size) for axes in sorted(by_axes)), id_size
        )
        for node_id, by_axes in nodes.items()
    }


def scatter_rows(manifest: Manifest, form: TreeForm) -> Iterator[tuple[NodeId, PayloadRows]]:
    """Each node with its rows, nodes by id and rows by coordinates."""
    if manifest.extra is not None or manifest.array_extras:
        raise InvalidInputError("manifest: there is no place for extra bytes")
    for node_id in sorted(manifest.arrays):
        refs = manifest.arrays[node_id]
        tables = refs.tables if isinstance(refs, RankedRefs) else (refs.table(),)
        with refused(f"chunks of {node_id!r}"):
            rows = [row for table in tables for row in _scatter_table(table, form)]
        yield node_id, sorted(rows, key=itemgetter(0))


def _scatter_table(table: ChunkTable, form: TreeForm) -> PayloadRows:
    if table.extras:
        raise InvalidInputError("there is no place for extra bytes")
    return [(where, write_payload(ref, form)) for where, ref in table.refs().items()]


def read_payload(value: object, form: TreeForm) -> ChunkRef:
    """One chunk reference."""
    variant, content = as_variant("chunk payload", value)
    if variant == "Inline":
        return InlineRef(form.read_inline(content))
    if variant == "Virtual":
        return form.read_virtual(content)
    if variant == "Ref":
        fields = form.read_struct("chunk reference", content, _REF_FIELDS)
        return NativeRef(
            chunk_id=form.read_id(ChunkId, fields["id"]),
            offset=as_int("offset", fields["offset"], 0, UINT64_MAX),
            length=as_int("length", fields["length"], 0, UINT64_MAX),
        )
    raise FormatError(f"chunk payload: {show(variant)} is not known")


def write_payload(ref: ChunkRef, form: TreeForm) -> dict[str, object]:
    """The reverse of `read_payload`."""
    if isinstance(ref, InlineRef):
        return {"Inline": form.write_inline(ref.data)}
    if isinstance(ref, VirtualRef):
        return {"Virtual": form.write_virtual(ref)}
    fields = {"id": form.write_id(ref.chunk_id), "offset": ref.offset, "length": ref.length}
    return {"Ref": form.write_struct(fields)}
