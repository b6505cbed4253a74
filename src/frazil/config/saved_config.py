"""Encode and decode a configuration as the JSON-like tree that is saved in a repository."""

from collections.abc import Mapping
from typing import Any, Protocol

from frazil.config.conditions import (
    AllOf,
    Always,
    AnyDimCondition,
    AnyOf,
    DimSplits,
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    NameMatches,
    Never,
    NumRefs,
    PathMatches,
    Rule,
)
from frazil.config.settings import (
    CachingConfig,
    CompressionAlgorithm,
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
)
from frazil.errors import FormatError, InvalidInputError
from frazil.format.metadata import JsonValue
from frazil.lazy import dataclass
from frazil.storage.interface import (
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.storage.store_config import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
)
from frazil.virtual.containers import VirtualChunkContainer


class Shape(Protocol):
    """Encoder and decoder of one type of value; `where` is the path shown in errors."""

    def decode(self, tree: JsonValue, where: str) -> Any:
        """Decode a value; raises FormatError if the tree is invalid."""

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode a value; raises InvalidInputError if it can't be saved."""


class Scalar:
    """Scalar that is saved unchanged."""

    def __init__(self, kind: type, least: int = 0, most: int = 0) -> None:
        self._kind = kind
        self._least = least
        self._most = most

    def decode(self, tree: JsonValue, where: str) -> Any:
        """Check and return the value."""
        if not self._fits(tree):
            raise bad_tree(where, tree)
        return tree

    def encode(self, value: Any, where: str) -> JsonValue:
        """Check and return the value."""
        if not self._fits(value):
            raise bad_value(where, value)
        return value

    def _fits(self, value: object) -> bool:
        # A bool is an int in Python, but not a number in a file.
        if type(value) is not self._kind:
            return False
        return not (isinstance(value, int) and self._kind is int) or (
            self._least <= value <= self._most
        )


TEXT, FLAG = Scalar(str), Scalar(bool)
U8, U16, U32, U64 = (Scalar(int, 0, 2**bits - 1) for bits in (8, 16, 32, 64))
COUNT16, COUNT64 = (Scalar(int, 1, 2**bits - 1) for bits in (16, 64))
I32 = Scalar(int, -(2**31), 2**31 - 1)


@dataclass(frozen=True, slots=True)
class Texts:
    """Mapping of names to strings."""

    def decode(self, tree: JsonValue, where: str) -> dict[str, str]:
        """Decode a mapping."""
        return {
            name: as_text(each, f"{where}.{name}") for name, each in as_map(tree, where).items()
        }

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode a mapping; None becomes an empty one."""
        return {name: TEXT.encode(each, f"{where}.{name}") for name, each in (value or {}).items()}


@dataclass(frozen=True, slots=True)
class Record:
    """Dataclass, saved as a map; every field is optional, and None is saved as null."""

    cls: type
    fields: Mapping[str, Shape]
    """Fields in the order in which they are written."""

    def decode(self, tree: JsonValue, where: str) -> Any:
        """Decode the dataclass from the fields that are present."""
        found = as_map(tree, where)
        return self.cls(
            **{
                name: shape.decode(found[name], f"{where}.{name}")
                for name, shape in self.fields.items()
                if found.get(name) is not None
            }
        )

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode a map with all fields."""
        if not isinstance(value, self.cls):
            raise bad_value(where, value)
        return {
            name: encode_optional(shape, getattr(value, name), f"{where}.{name}")
            for name, shape in self.fields.items()
        }


def encode_optional(shape: Shape, value: Any, where: str) -> JsonValue:
    """Encode a value, or null for None."""
    return None if value is None else shape.encode(value, where)


def as_map(tree: JsonValue, where: str) -> dict[str, JsonValue]:
    """Return the tree if it is a map; raises FormatError."""
    if not isinstance(tree, dict):
        raise bad_tree(where, tree)
    return tree


def as_list(tree: JsonValue, where: str) -> list[JsonValue]:
    """Return the tree if it is a list; raises FormatError."""
    if not isinstance(tree, list):
        raise bad_tree(where, tree)
    return tree


def as_choice(tree: JsonValue, where: str) -> tuple[str, JsonValue]:
    """Decode a tagged variant: a map with one key, or a string without content."""
    match tree:
        case str():
            return tree, None
        case dict() if len(tree) == 1:
            ((name, content),) = tree.items()
            return name, content
    raise bad_tree(where, tree)


def bad_tree(where: str, tree: JsonValue) -> FormatError:
    """Return the error for an invalid part of a saved configuration."""
    return FormatError(f"{where}: {tree!r} can't be this", kind="config-deserialization")


def bad_value(where: str, value: object) -> InvalidInputError:
    """Return the error for a part of a configuration that can't be saved."""
    return InvalidInputError(f"{where}: {value!r} can't be saved here", kind="serialization")


def as_text(tree: JsonValue, where: str) -> str:
    """Return the tree as a string; unquoted numbers and booleans are accepted."""
    if isinstance(tree, bool):
        return str(tree).lower()
    if isinstance(tree, str | int | float):
        return str(tree)
    raise bad_tree(where, tree)


@dataclass(frozen=True, slots=True)
class ConditionShape:
    """Condition on arrays; `always` is the saved name of the condition that always holds."""

    cls: type[ManifestPreloadCondition] | type[ManifestSplitCondition]
    always: str

    def decode(self, tree: JsonValue, where: str) -> Any:
        """Decode a condition."""
        return self.cls(self._decode_rule(tree, where))

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode a condition as a tree of tagged variants."""
        if not isinstance(value, self.cls):
            raise bad_value(where, value)
        return self._encode_rule(value.rule, where)

    def _decode_rule(self, tree: JsonValue, where: str) -> Rule:
        # YAML reads an unquoted `true` as a boolean.
        kind, content = ("true" if tree else "false", None) if isinstance(tree, bool) else (
            as_choice(tree, where)
        )  # fmt: skip
        match kind:
            case "or" | "and":
                rules = [self._decode_rule(each, where) for each in as_list(content, where)]
                return AnyOf(tuple(rules)) if kind == "or" else AllOf(tuple(rules))
            case "path_matches" | "name_matches":
                regex = TEXT.decode(as_map(content, where).get("regex"), where)
                return PathMatches(regex) if kind == "path_matches" else NameMatches(regex)
            case "num_refs":
                return _decode_num_refs(as_map(content, where), where)
            case "false":
                return Never()
        if kind != self.always:
            raise bad_tree(where, tree)
        return Always()

    def _encode_rule(self, rule: Rule, where: str) -> JsonValue:
        match rule:
            case AnyOf(rules):
                return {"or": [self._encode_rule(each, where) for each in rules]}
            case AllOf(rules):
                return {"and": [self._encode_rule(each, where) for each in rules]}
            case PathMatches(regex):
                return {"path_matches": {"regex": TEXT.encode(regex, where)}}
            case NameMatches(regex):
                return {"name_matches": {"regex": TEXT.encode(regex, where)}}
            case NumRefs(start, end):
                return {"num_refs": {"from": _bound("Included", start, where),
                                     "to": _bound("Excluded", end, where)}}  # fmt: skip
            case Always():
                return self.always
            case Never():
                return "false"


PRELOAD_CONDITION = ConditionShape(ManifestPreloadCondition, "true")
SPLIT_CONDITION = ConditionShape(ManifestSplitCondition, "any_array")


def _decode_num_refs(content: dict[str, JsonValue], where: str) -> NumRefs:
    """Decode inclusive and exclusive bounds as a half-open range."""
    bounds: list[int | None] = []
    for name, shift in (("from", "Excluded"), ("to", "Included")):
        kind, number = as_choice(content.get(name, "Unbounded"), f"{where}.{name}")
        if kind == "Unbounded":
            bounds.append(None)
        elif kind in ("Included", "Excluded"):
            bounds.append(U32.decode(number, where) + (kind == shift))
        else:
            raise bad_tree(f"{where}.{name}", kind)
    return NumRefs(*bounds)


def _bound(kind: str, number: int | None, where: str) -> JsonValue:
    # An exclusive bound above the largest number is no bound.
    if number is None or number == 2**32:
        return "Unbounded"
    return {kind: U32.encode(number, where)}


@dataclass(frozen=True, slots=True)
class SplitSizesShape:
    """Split rules, each a pair of a condition and sizes along dimensions."""

    def decode(self, tree: JsonValue, where: str) -> tuple[tuple[Any, DimSplits], ...]:
        """Decode split rules."""
        return tuple(self._decode_rule(each, where) for each in as_list(tree, where))

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode split rules as a list of pairs."""
        return [
            [SPLIT_CONDITION.encode(condition, where),
             [{"condition": _encode_dim(dim, where), "num_chunks": U32.encode(size, where)}
              for dim, size in sizes]]
            for condition, sizes in value
        ]  # fmt: skip

    def _decode_rule(self, tree: JsonValue, where: str) -> tuple[Any, DimSplits]:
        match as_list(tree, where):
            case [condition, sizes]:
                dims = (as_map(each, where) for each in as_list(sizes, where))
                return SPLIT_CONDITION.decode(condition, where), tuple(
                    (_decode_dim(each.get("condition"), where),
                     U32.decode(each.get("num_chunks"), where))
                    for each in dims
                )  # fmt: skip
        raise bad_tree(where, tree)


def _decode_dim(tree: JsonValue, where: str) -> AnyDimCondition:
    match as_choice(tree, where):
        case "Axis", number:
            return ManifestSplitDimCondition.Axis(U64.decode(number, where))
        case "DimensionName", regex:
            return ManifestSplitDimCondition.DimensionName(TEXT.decode(regex, where))
        case "Any", _:
            return ManifestSplitDimCondition.Any()
    raise bad_tree(where, tree)


def _encode_dim(dim: AnyDimCondition, where: str) -> JsonValue:
    match dim:
        case ManifestSplitDimCondition.Axis(axis):
            return {"Axis": U64.encode(axis, where)}
        case ManifestSplitDimCondition.DimensionName(regex):
            return {"DimensionName": TEXT.encode(regex, where)}
        case ManifestSplitDimCondition.Any():
            return "Any"
    raise bad_value(where, dim)


# Names are in snake case since 0.2; alpha releases wrote the names of the variants.
_CHECKSUMS = {
    "crc32": ChecksumAlgorithm.Crc32,
    "crc32c": ChecksumAlgorithm.Crc32c,
    "crc64_nvme": ChecksumAlgorithm.Crc64Nvme,
    "sha1": ChecksumAlgorithm.Sha1,
    "sha256": ChecksumAlgorithm.Sha256,
}
_NAMES = {algorithm: name for name, algorithm in _CHECKSUMS.items()}
_TEXTS = Texts()


@dataclass(frozen=True, slots=True)
class ChecksumShape:
    """Checksum algorithm, saved by name."""

    def decode(self, tree: JsonValue, where: str) -> ChecksumAlgorithm:
        """Decode the name of an algorithm."""
        if not isinstance(tree, str) or tree not in _CHECKSUMS:
            raise bad_tree(where, tree)
        return _CHECKSUMS[tree]

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode the name of an algorithm."""
        if value not in _NAMES:
            raise bad_value(where, value)
        return _NAMES[value]


S3_OPTIONS = Record(
    S3Options,
    {
        "region": TEXT,
        "endpoint_url": TEXT,
        "anonymous": FLAG,
        "allow_http": FLAG,
        "force_path_style": FLAG,
        "network_stream_timeout_seconds": U32,
        "requester_pays": FLAG,
        "checksum_algorithm": ChecksumShape(),
    },
)


@dataclass(frozen=True, slots=True)
class HttpShape:
    """HTTP store: client options, with the headers among them."""

    def decode(self, tree: JsonValue, where: str) -> ObjectStoreConfig.Http:
        """Decode a store."""
        options = dict(as_map(tree, where))
        headers = options.pop("headers", None)
        return ObjectStoreConfig.Http(
            _TEXTS.decode(options, where),
            None if headers is None else _TEXTS.decode(headers, where),
        )

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode the options, and the headers if there are any."""
        options: dict[str, JsonValue] = _TEXTS.encode(value.opts, where)
        return options | ({"headers": _TEXTS.encode(value.headers, where)} if value.headers else {})


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Store with a single field, saved as the value of that field."""

    cls: type
    field: str
    content: Shape

    def decode(self, tree: JsonValue, where: str) -> Any:
        """Decode a store."""
        return self.cls(self.content.decode(tree, where))

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode the value of the field."""
        return self.content.encode(getattr(value, self.field), where)


_STORES: dict[str, tuple[type, Shape]] = {
    "local_file_system": (
        ObjectStoreConfig.LocalFileSystem,
        Wrapped(ObjectStoreConfig.LocalFileSystem, "path", TEXT),
    ),
    "http": (ObjectStoreConfig.Http, HttpShape()),
    "s3_compatible": (
        ObjectStoreConfig.S3Compatible,
        Wrapped(ObjectStoreConfig.S3Compatible, "options", S3_OPTIONS),
    ),
    "s3": (ObjectStoreConfig.S3, Wrapped(ObjectStoreConfig.S3, "options", S3_OPTIONS)),
    "gcs": (ObjectStoreConfig.Gcs, Wrapped(ObjectStoreConfig.Gcs, "opts", _TEXTS)),
    "azure": (ObjectStoreConfig.Azure, Wrapped(ObjectStoreConfig.Azure, "opts", _TEXTS)),
    "tigris": (ObjectStoreConfig.Tigris, Wrapped(ObjectStoreConfig.Tigris, "opts", S3_OPTIONS)),
}
_ALPHA_NAMES = {
    "InMemory": "in_memory",
    "LocalFileSystem": "local_file_system",
    "S3Compatible": "s3_compatible",
    "S3": "s3",
    "Gcs": "gcs",
    "GCS": "gcs",
    "Azure": "azure",
    "Tigris": "tigris",
}


@dataclass(frozen=True, slots=True)
class StoreShape:
    """Object store, saved as a tagged variant with its options."""

    def decode(self, tree: JsonValue, where: str) -> AnyObjectStoreConfig:
        """Decode a store."""
        kind, content = as_choice(tree, where)
        kind = _ALPHA_NAMES.get(kind, kind)
        if kind == "in_memory":
            return ObjectStoreConfig.InMemory()
        if kind not in _STORES:
            raise bad_tree(where, kind)
        store: AnyObjectStoreConfig = _STORES[kind][1].decode(content, where)
        return store

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode a store as a tagged variant."""
        if isinstance(value, ObjectStoreConfig.InMemory):
            return "in_memory"
        for kind, (cls, shape) in _STORES.items():
            if isinstance(value, cls):
                return {kind: shape.encode(value, where)}
        raise bad_value(where, value)


@dataclass(frozen=True, slots=True)
class ContainersShape:
    """Virtual chunk containers by their key in the configuration.

    Old files may have containers that can't be used. They are kept, so that saving the configuration
    again does not lose them.
    """

    def decode(self, tree: JsonValue, where: str) -> dict[str, VirtualChunkContainer]:
        """Decode the containers."""
        return {
            key: _decode_container(as_map(each, where), f"{where}.{key}")
            for key, each in as_map(tree, where).items()
        }

    def encode(self, value: Any, where: str) -> JsonValue:
        """Encode the containers as a map of maps."""
        return {
            key: {
                "name": encode_optional(TEXT, each.name, where),
                "url_prefix": TEXT.encode(each.url_prefix, where),
                "store": StoreShape().encode(each.store, f"{where}.{key}"),
            }
            for key, each in value.items()
        }


def _decode_container(tree: dict[str, JsonValue], where: str) -> VirtualChunkContainer:
    name = tree.get("name")
    return VirtualChunkContainer(
        TEXT.decode(tree.get("url_prefix"), where),
        StoreShape().decode(tree.get("store"), where),
        None if name is None else TEXT.decode(name, where),
    )


def decode_config(tree: JsonValue) -> RepositoryConfig:
    """Decode a configuration; raises FormatError if the tree is invalid."""
    config: RepositoryConfig = _CONFIG.decode(tree, "config")
    previous = as_map(tree, "config").get("previous_file")
    if previous is not None:
        config._previous_file = as_text(previous, "config.previous_file")
    return config


def encode_config(config: RepositoryConfig) -> dict[str, JsonValue]:
    """Encode a configuration; raises InvalidInputError if it can't be saved."""
    tree: dict[str, JsonValue] = _CONFIG.encode(config, "config")
    tree["previous_file"] = config.previous_file
    return {name: tree.get(name) for name in _ORDER}


@dataclass(frozen=True, slots=True)
class _AlgorithmShape:
    """Compression algorithm, saved by name; alpha releases capitalized it."""

    def decode(self, tree: JsonValue, where: str) -> CompressionAlgorithm:
        if tree not in ("zstd", "Zstd"):
            raise bad_tree(where, tree)
        return CompressionAlgorithm.Zstd

    def encode(self, value: Any, where: str) -> JsonValue:
        if value is not CompressionAlgorithm.Zstd:
            raise bad_value(where, value)
        return "zstd"


_RETRIES = Record(
    StorageRetriesSettings, {"max_tries": COUNT16, "initial_backoff_ms": U32, "max_backoff_ms": U32}
)
_STORAGE = Record(
    StorageSettings,
    {
        "concurrency": Record(
            StorageConcurrencySettings,
            {
                "max_concurrent_requests_for_object": COUNT16,
                "ideal_concurrent_request_size": COUNT64,
            },
        ),
        "retries": _RETRIES,
        "timeouts": Record(
            StorageTimeoutSettings,
            {
                "connect_timeout_ms": U32,
                "read_timeout_ms": U32,
                "operation_timeout_ms": U32,
                "operation_attempt_timeout_ms": U32,
            },
        ),
        "unsafe_use_conditional_update": FLAG,
        "unsafe_use_conditional_create": FLAG,
        "unsafe_use_metadata": FLAG,
        "storage_class": TEXT,
        "metadata_storage_class": TEXT,
        "chunks_storage_class": TEXT,
        "minimum_size_for_multipart_upload": U64,
    },
)
_MANIFEST = Record(
    ManifestConfig,
    {
        "preload": Record(
            ManifestPreloadConfig,
            {"max_total_refs": U32, "preload_if": PRELOAD_CONDITION, "max_arrays_to_scan": U32},
        ),
        "splitting": Record(ManifestSplittingConfig, {"split_sizes": SplitSizesShape()}),
        "virtual_chunk_location_compression": Record(
            ManifestVirtualChunkLocationCompressionConfig,
            {
                "min_num_chunks": U16,
                "dictionary_max_training_samples": U16,
                "dictionary_max_size_bytes": U32,
                "compression_level": I32,
            },
        ),
        "max_concurrent_manifest_fetches_during_commit": U16,
    },
)
_CACHES: Mapping[str, Any] = dict.fromkeys(
    ("num_snapshot_nodes", "num_chunk_refs", "num_transaction_changes", "num_bytes_attributes",
     "num_bytes_chunks"), U64
)  # fmt: skip
_CONFIG = Record(
    RepositoryConfig,
    {
        "inline_chunk_threshold_bytes": U16,
        "get_partial_values_concurrency": U16,
        "compression": Record(CompressionConfig, {"algorithm": _AlgorithmShape(), "level": U8}),
        "max_concurrent_requests": U16,
        "max_concurrent_decodes": U16,
        "caching": Record(CachingConfig, _CACHES),
        "storage": _STORAGE,
        "virtual_chunk_containers": ContainersShape(),
        "manifest": _MANIFEST,
        "repo_update_retries": Record(RepoUpdateRetryConfig, {"default": _RETRIES}),
        "num_updates_per_repo_info_file": U16,
    },
)
_ORDER = (*list(_CONFIG.fields)[:-2], "previous_file", *list(_CONFIG.fields)[-2:])
