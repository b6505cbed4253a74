"""Reading the bytes of chunks, wherever they are."""

from dataclasses import dataclass

from frazil.assets import Assets
from frazil.errors import InvalidInputError, ObjectNotFoundError, ObjectRangeError, StorageError
from frazil.format.references import ChunkRef, InlineRef, NativeRef, VirtualRef
from frazil.maintenance.checking.pacing import Pace
from frazil.virtual.access import MODIFIED, VirtualChunkAccess


@dataclass(frozen=True, slots=True)
class ChunkReader:
    """Reads for the threads of one process, which keep a pace together in other people's files."""

    assets: Assets
    virtual: VirtualChunkAccess
    pace: Pace

    def read(self, ref: ChunkRef) -> bytes | None:
        """The bytes of a chunk; None where others tell why there are none.

        Those are the listing of chunk files, and who asks for the sources of virtual chunks. Raises
        StorageError.
        """
        match ref:
            case InlineRef(data):
                return data
            case NativeRef():
                return self._read_native(ref)
            case VirtualRef():
                self.pace.wait()
                return self._read_virtual(ref)

    def _read_native(self, ref: NativeRef) -> bytes | None:
        try:
            return bytes(self.assets.read_chunk(ref.chunk_id, ref.offset, ref.offset + ref.length))
        except (ObjectNotFoundError, ObjectRangeError):
            return None

    def _read_virtual(self, ref: VirtualRef) -> bytes | None:
        try:
            return bytes(self.virtual.read(ref, 0, ref.length))
        except (ObjectNotFoundError, ObjectRangeError, InvalidInputError):
            return None
        except StorageError as failure:
            if failure.kind == MODIFIED:
                return None
            raise
