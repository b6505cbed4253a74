"""Slot numbers of the FlatBuffers schemas of V1 and V2.

The two are one schema: V2 appended slots and moved some contents to them. A union takes two slots,
the type and then the value.
"""

from enum import IntEnum


class RepoSlot(IntEnum):
    SPEC_VERSION, TAGS, BRANCHES, DELETED_TAGS, SNAPSHOTS, STATUS, METADATA, LATEST_UPDATES = range(
        8
    )
    REPO_BEFORE_UPDATES, CONFIG, ENABLED_FEATURE_FLAGS, DISABLED_FEATURE_FLAGS, EXTRA = range(8, 13)


class RefSlot(IntEnum):
    NAME, SNAPSHOT_INDEX = range(2)


class SnapshotInfoSlot(IntEnum):
    ID, PARENT_OFFSET, FLUSHED_AT, MESSAGE, METADATA, PRUNED_ANCESTOR_TX_LOGS = range(6)


class StatusSlot(IntEnum):
    AVAILABILITY, SET_AT, LIMITED_AVAILABILITY_REASON = range(3)


class UpdateSlot(IntEnum):
    TYPE, VALUE, UPDATED_AT, BACKUP_PATH = range(4)


class MetadataSlot(IntEnum):
    NAME, VALUE = range(2)


class SnapshotSlot(IntEnum):
    ID, PARENT_ID, NODES, FLUSHED_AT, MESSAGE, METADATA, MANIFEST_FILES = range(7)
    MANIFEST_FILES_V2, EXTRA = 7, 8


class ManifestFileSlot(IntEnum):
    ID, SIZE_BYTES, NUM_CHUNK_REFS, EXTRA = range(4)


class NodeSlot(IntEnum):
    ID, PATH, USER_DATA, DATA_TYPE, DATA, EXTRA = range(6)


class NodeDataType(IntEnum):
    ARRAY, GROUP = 1, 2


class ArraySlot(IntEnum):
    SHAPE, DIMENSION_NAMES, MANIFESTS, SHAPE_V2 = range(4)


class DimensionSlot(IntEnum):
    ARRAY_LENGTH, NUM_CHUNKS = range(2)


class ManifestRefSlot(IntEnum):
    OBJECT_ID, EXTENTS = range(2)


class ManifestSlot(IntEnum):
    ID, ARRAYS, LOCATION_DICTIONARY, COMPRESSION_ALGORITHM, EXTRA = range(5)


class ArrayManifestSlot(IntEnum):
    NODE_ID, REFS, EXTRA = range(3)


class ChunkRefSlot(IntEnum):
    INDEX, INLINE, OFFSET, LENGTH, CHUNK_ID, LOCATION, CHECKSUM_ETAG = range(7)
    CHECKSUM_LAST_MODIFIED, COMPRESSED_LOCATION, EXTRA = 7, 8, 9


class TransactionLogSlot(IntEnum):
    ID, NEW_GROUPS, NEW_ARRAYS, DELETED_GROUPS, DELETED_ARRAYS, UPDATED_ARRAYS = range(6)
    UPDATED_GROUPS, UPDATED_CHUNKS, MOVED_NODES, EXTRA = range(6, 10)


class UpdatedChunksSlot(IntEnum):
    NODE_ID, CHUNKS = range(2)


class MoveSlot(IntEnum):
    FROM, TO, NODE_ID, NODE_TYPE = range(4)
