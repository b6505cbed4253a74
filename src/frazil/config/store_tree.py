"""Containers of virtual chunks in a saved configuration, with the stores they name."""

from dataclasses import dataclass
from typing import Any

from frazil.config.shapes import (
    FLAG,
    TEXT,
    U32,
    Record,
    Shape,
    Texts,
    as_choice,
    as_map,
    bad_tree,
    bad_value,
    encode_optional,
)
from frazil.format.json_values import JsonValue
from frazil.storage.store_config import (
    AnyObjectStoreConfig,
    ChecksumAlgorithm,
    ObjectStoreConfig,
    S3Options,
)
from frazil.virtual.containers import VirtualChunkContainer

# Words are in snake case since 0.2; alphas wrote the names of the variants.
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
    """A checksum algorithm by its name."""

    def decode(self, tree: JsonValue, where: str) -> ChecksumAlgorithm:
        """The algorithm."""
        if not isinstance(tree, str) or tree not in _CHECKSUMS:
            raise bad_tree(where, tree)
        return _CHECKSUMS[tree]

    def encode(self, value: Any, where: str) -> JsonValue:
        """The name."""
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
    """A web server: options of the client, and among them the headers."""

    def decode(self, tree: JsonValue, where: str) -> ObjectStoreConfig.Http:
        """The store."""
        options = dict(as_map(tree, where))
        headers = options.pop("headers", None)
        return ObjectStoreConfig.Http(
            _TEXTS.decode(options, where),
            None if headers is None else _TEXTS.decode(headers, where),
        )

    def encode(self, value: Any, where: str) -> JsonValue:
        """Options, and headers if there are any."""
        options: dict[str, JsonValue] = _TEXTS.encode(value.opts, where)
        return options | ({"headers": _TEXTS.encode(value.headers, where)} if value.headers else {})


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A store of one field, saved as what the field holds."""

    cls: type
    field: str
    content: Shape

    def decode(self, tree: JsonValue, where: str) -> Any:
        """The store."""
        return self.cls(self.content.decode(tree, where))

    def encode(self, value: Any, where: str) -> JsonValue:
        """What its field holds."""
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
    """A store, as a choice with its options."""

    def decode(self, tree: JsonValue, where: str) -> AnyObjectStoreConfig:
        """The store."""
        kind, content = as_choice(tree, where)
        kind = _ALPHA_NAMES.get(kind, kind)
        if kind == "in_memory":
            return ObjectStoreConfig.InMemory()
        if kind not in _STORES:
            raise bad_tree(where, kind)
        store: AnyObjectStoreConfig = _STORES[kind][1].decode(content, where)
        return store

    def encode(self, value: Any, where: str) -> JsonValue:
        """A choice."""
        if isinstance(value, ObjectStoreConfig.InMemory):
            return "in_memory"
        for kind, (cls, shape) in _STORES.items():
            if isinstance(value, cls):
                return {kind: shape.encode(value, where)}
        raise bad_value(where, value)


@dataclass(frozen=True, slots=True)
class ContainersShape:
    """Containers, under the keys that they have in the configuration.

    Old files hold some that can't be used; they are kept, for whoever saves the configuration again.
    """

    def decode(self, tree: JsonValue, where: str) -> dict[str, VirtualChunkContainer]:
        """The containers."""
        return {
            key: _decode_container(as_map(each, where), f"{where}.{key}")
            for key, each in as_map(tree, where).items()
        }

    def encode(self, value: Any, where: str) -> JsonValue:
        """A map of maps."""
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
