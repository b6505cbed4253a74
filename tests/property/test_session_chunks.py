"""Whatever is done to the chunks of an array, in whatever generation and split, a dict agrees.

The dict has the bytes of every chunk, also of those that a smaller grid hides until the next commit.
"""

import json
import os
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.core.buffer import cpu

from frazil import Repository, Session, create_legacy
from frazil.format import coordinates as coords_
from frazil.format.header import Dialect
from frazil.format.manifest import ChunkTable, VirtualRef
from frazil.repository.changes import prewrite_manifest, write_part
from frazil.repository.view import manifests_of
from frazil.storage.memory import MemoryStorage
from tests.repositories import create, dangling_files, split_every

Coordinate = tuple[int, ...]
Chunks = dict[Coordinate, bytes]
DEEP = "FRAZIL_DEEP" in os.environ
PATH = "/numbers"

split_sizes = st.integers(1, 4)


def set_shape(session: Session, grid: Coordinate) -> None:
    """One element a chunk, so that the shape is the grid."""
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(grid),
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1] * len(grid)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
    }
    data = json.dumps(metadata).encode()
    session.store.set_sync("numbers/zarr.json", cpu.Buffer.from_bytes(data))


def chunk_key(coordinate: Coordinate) -> str:
    return "/".join(["numbers/c", *map(str, coordinate)])


class Model:
    """An array of a session, and what it should have."""

    def __init__(self, session: Session, grid: Coordinate, chunks: Chunks) -> None:
        self.session = session
        self.grid = grid
        self.chunks = chunks

    def visible(self) -> Chunks:
        return {key: data for key, data in self.chunks.items() if self.has_place(key)}

    def has_place(self, coordinate: Coordinate) -> bool:
        return all(i < count for i, count in zip(coordinate, self.grid, strict=True))

    # What can be done

    def set(self, data: st.DataObject) -> None:
        place = data.draw(st.tuples(*(st.integers(0, count - 1) for count in self.grid)))
        written = data.draw(st.binary(min_size=1, max_size=12))
        self.session.store.set_sync(chunk_key(place), cpu.Buffer.from_bytes(written))
        self.chunks[place] = written

    def set_many(self, data: st.DataObject) -> None:
        """A block of virtual references, from somewhere in the grid to its end."""
        start = data.draw(st.tuples(*(st.integers(0, count - 1) for count in self.grid)))
        shape = tuple(count - first for count, first in zip(self.grid, start, strict=True))
        count = int(np.prod(shape))
        offset = data.draw(st.integers(0, 1000))
        self.session.store.set_virtual_refs_arr(
            PATH,
            shape,
            ["s3://bucket/file"] * count,
            np.arange(offset, offset + count, dtype=np.uint64),
            np.full(count, 7, np.uint64),
            validate_containers=False,
            arr_offset=start,
        )
        for number, place in enumerate(np.ndindex(*shape)):
            moved = tuple(int(a) + b for a, b in zip(place, start, strict=True))
            self.chunks[moved] = b"at %d" % (offset + number)

    def adopt(self, data: st.DataObject) -> None:
        """A cell, or what is none, where a worker sets virtual references and deletes chunks."""
        size = data.draw(split_sizes)
        start = data.draw(st.tuples(*(st.integers(0, count - 1) for count in self.grid)))
        box = tuple(
            (each // size * size, min(each // size * size + size, count))
            for each, count in zip(start, self.grid, strict=True)
        )
        all_places = map(tuple, coords_.grid_of(box).tolist())
        drawn = {each: data.draw(st.sampled_from("sd-")) for each in all_places} | {start: "s"}
        places = [each for each, what in drawn.items() if what == "s"]
        gone = [each for each, what in drawn.items() if what == "d"]
        deleted = np.array(gone, np.uint32).reshape(len(gone), len(box))
        offset = data.draw(st.integers(0, 1000))
        refs = {
            place: VirtualRef("s3://bucket/file", offset + number, 7, None)
            for number, place in enumerate(places)
        }
        view = self.session.state.view
        node, array = view.get_array(PATH)
        base = [
            ref
            for ref in manifests_of(array, view.assets.dialect)
            if not ref.extents or coords_.meet(ref.extents, box)
        ]
        table = ChunkTable.of(len(box), refs, view.changes.id_size)
        if data.draw(st.booleans()):
            cell = write_part(view.assets, node.id, table, deleted)
        else:
            cell = prewrite_manifest(view.assets, node.id, box, base, table, deleted)
        view.changes.edit_chunks(node).adopt(pickle.loads(pickle.dumps(cell)))
        self.chunks |= {place: b"at %d" % ref.offset for place, ref in refs.items()}
        for place in gone:
            self.chunks.pop(place, None)

    def delete(self, data: st.DataObject) -> None:
        place = data.draw(st.tuples(*(st.integers(0, count - 1) for count in self.grid)))
        self.session.store.delete_sync(chunk_key(place))
        self.chunks.pop(place, None)

    def resize(self, data: st.DataObject) -> None:
        self.grid = data.draw(st.tuples(*(st.integers(1, 5) for _ in self.grid)))
        set_shape(self.session, self.grid)

    def shift(self, data: st.DataObject) -> None:
        offset = data.draw(st.tuples(*(st.integers(-2, 2) for _ in self.grid)))
        hidden = {key: each for key, each in self.chunks.items() if not self.has_place(key)}
        self.session.shift_array(PATH, list(offset))
        moved = {
            tuple(a + b for a, b in zip(key, offset, strict=True)): each
            for key, each in self.visible().items()
        }
        inside = {k: each for k, each in moved.items() if min(k) >= 0 and self.has_place(k)}
        self.chunks = hidden | inside

    # What is found

    def check(self) -> None:
        view = self.session.state.view
        node = view.get_node(PATH)
        blocks = [rows.tolist() for rows in view.coordinates(node)]
        assert sorted(tuple(each) for rows in blocks for each in rows) == sorted(self.visible())

    def check_values(self) -> None:
        view = self.session.state.view
        node = view.get_node(PATH)
        places = {place for place in np.ndindex(*self.grid) if view.find_chunk(node, place)}
        assert {place: self.read(place) for place in places} == self.visible()

    def read(self, place: Coordinate) -> bytes:
        view = self.session.state.view
        ref = view.find_chunk(view.get_node(PATH), place)
        if isinstance(ref, VirtualRef):
            return b"at %d" % ref.offset
        data = self.session.store.get_sync(chunk_key(place))
        assert data is not None
        return data.to_bytes()

    def check_manifests(self) -> None:
        """Boxes are tight and do not meet, so that it does not matter which one is asked first."""
        view = self.session.state.view
        node, array = view.get_array(PATH)
        boxes = [ref.extents for ref in array.manifests if ref.extents]
        for ref in array.manifests:
            table = view.assets.read_manifest(ref.id).table(node.id, len(self.grid))
            assert not ref.extents or ref.extents == table.extents()
        for number, box in enumerate(boxes):
            assert not any(coords_.meet(box, other) for other in boxes[number + 1 :])
        counts = {file.id: file.num_chunk_refs for file in view.snapshot.manifest_files}
        assert {ref.id for ref in array.manifests} == set(counts)
        if None not in counts.values():
            assert sum(count or 0 for count in counts.values()) == len(self.chunks)


def make(dialect: Dialect, split: int) -> Repository:
    if dialect in (Dialect.V1, Dialect.V2):
        repository = create(spec_version=1 if dialect is Dialect.V1 else 2)
    else:
        repository = create_legacy(MemoryStorage(), dialect.value)
    return repository.reopen(split_every(split, inline_up_to=6))


ACTIONS: list[Callable[[Model, st.DataObject], None]] = [
    Model.set, Model.set_many, Model.adopt, Model.delete, Model.resize, Model.shift,
]  # fmt: skip


@pytest.mark.parametrize("dialect", Dialect)
@settings(max_examples=1000 if DEEP else 10)
@given(data=st.data(), split=split_sizes, axes=st.integers(1, 3))
def test_an_array_has_the_chunks_that_a_dict_has(
    dialect: Dialect, data: st.DataObject, split: int, axes: int
) -> None:
    repository = make(dialect, split)
    session = repository.writable_session("main")
    grid = data.draw(st.tuples(*[st.integers(1, 5)] * axes))
    set_shape(session, grid)
    model = Model(session, grid, {})

    for number in range(data.draw(st.integers(1, 3))):
        for action in data.draw(st.lists(st.sampled_from(ACTIONS), max_size=6)):
            action(model, data)
            model.check()
        model.check_values()
        session.commit(f"commit {number}", allow_empty=True)
        model.chunks = model.visible()
        model.check_values()
        model.check_manifests()
        # From here on with another split, which is no reason to touch what nobody changes.
        config = split_every(data.draw(split_sizes), inline_up_to=6)
        repository = Repository.open(repository.storage, config)
        session = repository.writable_session("main")
        model = Model(session, model.grid, model.chunks)
        model.check()
    assert dangling_files(repository) == set()
