"""References on their way to the manifest that they belong to, on workers.

One that has the references of a source cuts them by cell; another one has all parts of a cell, and
writes its manifest.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from frazil.assets import Assets
from frazil.engine.cells import write_cell
from frazil.engine.virtual_columns import ChecksumColumn, TextColumn
from frazil.engine.virtual_refs import make_table
from frazil.errors import InvalidSourcesError
from frazil.format.chunks import ChunkTable, concatenate
from frazil.format.references import ChunkRef, InlineRef, NativeRef
from frazil.spark.ingesting.ledger import is_same_version
from frazil.spark.ingesting.placing import CellTask, PlacedCell, Placement
from frazil.virtual import FileVersion, ReferenceColumns
from frazil.virtual.combining.plan import NOT_PLACED
from frazil.virtual.sources.columns import concatenate as unite


class Cutter:
    """Takes up the references of sources, and cuts those of each array by cell all at once."""

    def __init__(self, placement: Placement, assets: Assets) -> None:
        self._placement = placement
        self._assets = assets
        self._parts: dict[str, list[ReferenceColumns]] = {}
        self.rows = 0
        """References that were not cut yet."""

    def add(
        self, source: str, version: FileVersion, references: Mapping[str, ReferenceColumns]
    ) -> None:
        """Take up those of a source; raises InvalidSourcesError if it is not as the plan knows it."""
        placement = self._placement
        if source not in placement.sources:
            return
        if not is_same_version(version, placement.versions[source]):
            raise InvalidSourcesError(f"{source} was changed while it was ingested", files=[source])
        number = placement.sources[source]
        for name, target in placement.targets.items():
            offset = target.offsets[number]
            if name in references and not np.any(offset == NOT_PLACED):
                moved = references[name].shift(offset)
                self._parts.setdefault(name, []).append(moved)
                self.rows += len(moved) + len(moved.inline_chunks)

    def cut(self) -> Iterator[tuple[int, ChunkTable]]:
        """What was taken up, by the number of its cell."""
        parts, self._parts, self.rows = self._parts, {}, 0
        for name, columns in parts.items():
            target = self._placement.targets[name]
            table = to_table(unite(columns), self._placement, self._assets)
            for cell, part in table.split(target.edges).items():
                yield target.numbers[cell], part.compact()


def to_table(columns: ReferenceColumns, placement: Placement, assets: Assets) -> ChunkTable:
    """References as manifests hold them; chunks that came with a header are written if large."""
    tables = [
        make_table(
            np.ascontiguousarray(part.coordinates, np.uint32),
            TextColumn(part.location_codes, part.locations),
            part.offsets,
            part.lengths,
            ChecksumColumn.of(checksums, len(part)),
            placement.id_size,
        )
        for part, checksums in columns.by_checksum_kind()
    ]
    inline: dict[tuple[int, ...], ChunkRef] = {
        tuple(where): _keep(data, placement, assets)
        for where, data in zip(
            columns.inline_coordinates.tolist(), columns.inline_chunks, strict=True
        )
    }
    if inline:
        tables.append(ChunkTable.of(columns.axes, inline, placement.id_size))
    return concatenate([ChunkTable.empty(columns.axes, placement.id_size), *tables]).sort()


def _keep(data: bytes, placement: Placement, assets: Assets) -> ChunkRef:
    if len(data) <= placement.inline_bytes:
        return InlineRef(data)
    return NativeRef(assets.write_chunk(data), 0, len(data))


def write(assets: Assets, task: CellTask, parts: Iterable[ChunkTable]) -> PlacedCell:
    """Write the manifest of a cell of all its parts."""
    # In any order of arrival the same: no two sources have a chunk in common.
    table = concatenate(parts).sort()
    cell = write_cell(assets, task.node_id, task.box, task.base, table)
    return PlacedCell(task.variable, cell, len(table), int(table.length.sum()))
