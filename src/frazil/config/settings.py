"""Configuration of a repository, as users write it and with defaults applied."""

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, field, fields, replace
from datetime import timedelta
from enum import Enum, EnumType
from typing import TYPE_CHECKING, Any, Self, TextIO

from frazil.config.conditions import (
    DEFAULT_PRELOAD_IF,
    AnyDimCondition,
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    SplitSizes,
)
from frazil.display import Item, Listed, Rendered, effective, effective_value, field_items
from frazil.errors import FormatError, InvalidInputError
from frazil.format.manifest import LocationCompression
from frazil.format.metadata import JsonValue
from frazil.lazy import dataclass, lazy_modules
from frazil.storage.interface import StorageRetriesSettings, StorageSettings, merge_settings

if TYPE_CHECKING:
    import difflib

    from frazil.virtual import containers as virtual
else:
    difflib, virtual = lazy_modules("difflib", "frazil.virtual.containers")

LARGEST_LABEL_BYTES = 128

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_CLIENT = rf"{_TOKEN}(/{_TOKEN})?"
_LABEL = r"[ !#-'*-:<>-\[\]-~]*"  # what can be printed, but no ( ) \ ; = or "


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Attribution(Rendered):
    """Labels for the User-Agent header of every request of a repository.

    Parameters
    ----------
    client
        The software: `name` or `name/version`.
    workload
        The task it performs.
    principal
        The user or service on whose behalf it runs.

    Raises
    ------
    InvalidInputError
        If a label is too long or has forbidden characters; it is a ValueError.
    """

    client: str | None = None
    workload: str | None = None
    principal: str | None = None

    def __post_init__(self) -> None:
        _check("client", self.client, _CLIENT)
        _check("workload", self.workload, _LABEL)
        _check("principal", self.principal, _LABEL)

    @property
    def user_agent(self) -> str:
        """Return the labels in User-Agent syntax; empty if there are none."""
        labels = {"workload": self.workload, "principal": self.principal}
        named = "; ".join(f"{name}={label}" for name, label in labels.items() if label is not None)
        return " ".join(filter(None, (self.client, named and f"({named})")))


def _check(name: str, label: str | None, allowed: str) -> None:
    if label is None:
        return
    if len(label.encode()) > LARGEST_LABEL_BYTES:
        problem = f"is longer than {LARGEST_LABEL_BYTES} bytes"
    elif not re.fullmatch(allowed, label) and allowed == _CLIENT:
        problem = "is not `name` or `name/version` of token characters"
    elif not re.fullmatch(allowed, label):
        problem = 'has a forbidden character: only printable ASCII without ( ) \\ ; = "'
    else:
        return
    raise InvalidInputError(f"attribution: {name} {label!r} {problem}", kind="not-allowed")


@dataclass(frozen=True, slots=True, repr=False)
class FeatureFlag(Listed):
    """Feature flag with its default and its setting.

    Parameters
    ----------
    id
        Id of the flag in the repo info.
    name
        Name of the flag.
    default_enabled
        Whether the feature is enabled by default.
    setting
        Explicit setting of the repository; None for the default.
    """

    id: int
    name: str
    default_enabled: bool
    setting: bool | None = None

    @property
    def enabled(self) -> bool:
        """Return True if the feature is enabled, by its setting or else by default."""
        return self.default_enabled if self.setting is None else self.setting

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields, and whether the feature is enabled."""
        yield from field_items(self)
        yield Item("enabled", self.enabled)


_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}
_ENVIRONMENT = "ICECHUNK_LOG"
_TO_STDOUT = "ICECHUNK_LOG_TO_STDOUT"
_PACKAGES = ("icechunk", "frazil")


class _Handler(logging.StreamHandler[TextIO]):
    """Handler that writes to the current standard error stream, which programs may replace."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        form = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
        self.formatter = logging.Formatter(form, "%Y-%m-%dT%H:%M:%S")

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stdout if _TO_STDOUT in os.environ else sys.stderr


_HANDLER = _Handler()
_chosen: set[str] = set()
"""Names of the loggers whose level was set by a filter."""


def initialize_logs() -> None:
    """Write the log to the standard error stream: warnings and errors, until a filter is set.

    If the environment variable `ICECHUNK_LOG_TO_STDOUT` is set, write to the standard output stream.
    """
    logging.getLogger("frazil").addHandler(_HANDLER)


def set_logs_filter(log_filter_directive: str | None) -> None:
    """Set the filter for log messages.

    Parameters
    ----------
    log_filter_directive
        Directives with commas between them: a level (`debug`) for everything, or a module and a level
        (`icechunk::storage=debug`). Modules of other libraries are ignored. None for what
        `ICECHUNK_LOG` in the environment says, or warnings and errors.

    Raises
    ------
    InvalidInputError
        For a level that does not exist; it is a ValueError.
    """
    initialize_logs()
    if log_filter_directive is None:
        log_filter_directive = os.environ.get(_ENVIRONMENT, "warn")
    levels = _parse_filter(log_filter_directive)
    for name in _chosen - levels.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    _chosen.update(levels)


def _parse_filter(directives: str) -> dict[str, int]:
    """Return the level of each logger that a filter names, and of `frazil` in any case."""
    words = [word for each in directives.split(",") if (word := each.strip())]
    levels = {"frazil": _LEVELS["off" if words else "error"]}
    # The global level comes first, so that it does not override the level of a module.
    for module, level in sorted(map(_parse_directive, words), key=lambda pair: bool(pair[0])):
        package, *path = module.replace("::", ".").split(".")
        if package in ("", *_PACKAGES):
            levels[".".join(["frazil", *path])] = level
        elif difflib.get_close_matches(package, _PACKAGES, cutoff=0.8):
            warning = f"unknown module {package!r} in the log filter, did you mean 'icechunk'?"
            print(f"WARNING: {warning}", file=sys.stderr)
    return levels


def _parse_directive(word: str) -> tuple[str, int]:
    """Return the module of a directive (empty for everything) and its level."""
    if word.lower() in _LEVELS:
        return "", _LEVELS[word.lower()]
    module, equals, level = word.rpartition("=")
    if not equals:  # a colon is common, too; without a level everything of the module is shown
        module, _, level = word.rpartition(":")
        module, level = (module, level) if level in _LEVELS else (word, "trace")
    if level.lower() not in _LEVELS or difflib.get_close_matches(
        module.lower(), _LEVELS, cutoff=0.7
    ):
        wrong = level if level.lower() not in _LEVELS else module
        raise InvalidInputError(f"{wrong!r} is no level of logs: {', '.join(_LEVELS)}")
    return module, _LEVELS[level.lower()]


def shutdown_telemetry() -> None:
    """Flush buffered log messages; there is nothing else to shut down."""
    _HANDLER.flush()


if _ENVIRONMENT in os.environ:
    set_logs_filter(None)

UNSPLIT = 2**32 - 1
"""Largest size of a split region, so large that no array is split."""
DEFAULT_SPLIT_SIZES: SplitSizes = (
    (ManifestSplitCondition.path_matches(".*"), ((ManifestSplitDimCondition.Any(), UNSPLIT),)),
)


@dataclass(slots=True, repr=False)
class ManifestPreloadConfig(Rendered):
    """Settings for preloading manifests when a session opens.

    Parameters
    ----------
    max_total_refs
        Maximum number of references to preload; 0 preloads none. Default 10,000.
    preload_if
        Condition on the manifests to preload; by default coordinates with up to 1,000
        references.
    max_arrays_to_scan
        Maximum number of arrays to consider. Default 50.
    """

    max_total_refs: int | None = field(default=None, metadata=effective(10_000))
    preload_if: ManifestPreloadCondition | None = None
    max_arrays_to_scan: int | None = field(default=None, metadata=effective(50))


ManifestSplitValues = dict[AnyDimCondition, int]
"""Number of chunks per manifest along the dimensions that each condition selects."""
SplitSizesDict = dict[ManifestSplitCondition, ManifestSplitValues]


@dataclass(slots=True, repr=False)
class ManifestSplittingConfig(Rendered):
    """Rules for splitting the references of an array into manifests.

    Parameters
    ----------
    split_sizes
        Pairs of a condition on arrays and sizes along dimensions; None for one manifest per array.
    """

    split_sizes: SplitSizes | None = None

    @staticmethod
    def from_dict(
        split_sizes: Mapping[ManifestSplitCondition, Mapping[AnyDimCondition, int]],
    ) -> "ManifestSplittingConfig":
        """Create the rules from nested mappings, in their order.

        Parameters
        ----------
        split_sizes
            For each condition on arrays, the number of chunks per manifest along dimensions.

        Returns
        -------
        ManifestSplittingConfig
            The rules; the first condition that holds for an array applies.
        """
        rules = ((condition, tuple(sizes.items())) for condition, sizes in split_sizes.items())
        return ManifestSplittingConfig(tuple(rules))

    def to_dict(self) -> dict[ManifestSplitCondition, dict[AnyDimCondition, int]]:
        """Return the rules as nested mappings, the inverse of `from_dict`."""
        return {condition: dict(sizes) for condition, sizes in self.split_sizes or ()}


@dataclass(slots=True, repr=False)
class ManifestVirtualChunkLocationCompressionConfig(Rendered):
    """Settings for the compression of virtual chunk locations.

    Parameters
    ----------
    min_num_chunks
        Minimum number of virtual chunks in a manifest for compression.
    dictionary_max_training_samples
        Maximum number of locations to train the dictionary with.
    dictionary_max_size_bytes
        Maximum size of the dictionary.
    compression_level
        Zstandard compression level.
    """

    min_num_chunks: int | None = field(default=None, metadata=effective(1000))
    _: KW_ONLY
    dictionary_max_training_samples: int | None = field(default=None, metadata=effective(100))
    dictionary_max_size_bytes: int | None = field(default=None, metadata=effective(2048))
    compression_level: int | None = field(default=None, metadata=effective(3))


@dataclass(slots=True, repr=False)
class ManifestConfig(Rendered):
    """Settings for manifests: preloading, splitting and compression.

    Parameters
    ----------
    preload
        Manifests to read when a session opens.
    splitting
        Number of references per manifest; by default one manifest per array.
    virtual_chunk_location_compression
        Compression of the URLs of virtual chunks.
    max_concurrent_manifest_fetches_during_commit
        Maximum number of manifests that a commit reads at once. Default 16; officially 1.
    """

    preload: ManifestPreloadConfig | None = field(
        default=None, metadata=effective(ManifestPreloadConfig())
    )
    splitting: ManifestSplittingConfig | None = field(
        default=None, metadata=effective(ManifestSplittingConfig(DEFAULT_SPLIT_SIZES))
    )
    virtual_chunk_location_compression: ManifestVirtualChunkLocationCompressionConfig | None = (
        field(
            default=None,
            metadata=effective(ManifestVirtualChunkLocationCompressionConfig()),
        )
    )
    max_concurrent_manifest_fetches_during_commit: int | None = field(
        default=None, metadata=effective(16)
    )


class _CallableWithoutValue(EnumType):
    """Metaclass that makes `CompressionAlgorithm()` the default, as in the official library."""

    def __call__(cls, value: Any = 0, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(value, *args, **kwargs)


class CompressionAlgorithm(Enum, metaclass=_CallableWithoutValue):
    """Compression algorithm of metadata files."""

    Zstd = 0

    @staticmethod
    def default() -> "CompressionAlgorithm":
        """Return the default algorithm."""
        return CompressionAlgorithm.Zstd


@dataclass(slots=True, repr=False)
class CompressionConfig(Rendered):
    """Compression algorithm and level of metadata files.

    Parameters
    ----------
    algorithm
        Compression algorithm; Zstandard is the only one.
    level
        Compression level. Default 3.
    """

    algorithm: CompressionAlgorithm | None = field(
        default=None, metadata=effective(CompressionAlgorithm.Zstd)
    )
    level: int | None = field(default=None, metadata=effective(3))

    @staticmethod
    def default() -> "CompressionConfig":
        """Return a configuration with all settings unset."""
        return CompressionConfig()


@dataclass(slots=True, repr=False)
class CachingConfig(Rendered):
    """Cache sizes of a repository object; 0 disables a cache.

    Parameters
    ----------
    num_snapshot_nodes
        Maximum number of nodes of cached snapshots. Default 500,000.
    num_chunk_refs
        Maximum number of references in cached manifests. Default 15,000,000.
    num_transaction_changes
        Maximum number of changes in cached transaction logs. Default 0.
    num_bytes_attributes
        Used by the official library only: Frazil caches attributes with their nodes.
    num_bytes_chunks
        Maximum size of cached native chunks in bytes. Default 0.
    """

    num_snapshot_nodes: int | None = field(default=None, metadata=effective(500_000))
    num_chunk_refs: int | None = field(default=None, metadata=effective(15_000_000))
    num_transaction_changes: int | None = field(default=None, metadata=effective(0))
    num_bytes_attributes: int | None = field(default=None, metadata=effective(0))
    num_bytes_chunks: int | None = field(default=None, metadata=effective(0))

    @staticmethod
    def default() -> "CachingConfig":
        """Return a configuration with all settings unset."""
        return CachingConfig()


@dataclass(slots=True, repr=False)
class RepoUpdateRetryConfig(Rendered):
    """Retry settings for updates of the repo info that fail because of a concurrent update."""

    default: StorageRetriesSettings | None = field(
        default=None, metadata=effective(StorageRetriesSettings(100, 50, 30_000))
    )


@dataclass(slots=True, repr=False)
class RepositoryConfig(Rendered):
    """Configuration of a repository; unset values have defaults.

    `Repository.save_config` saves it in the repository.

    Parameters
    ----------
    inline_chunk_threshold_bytes
        Maximum size of chunks that are stored inline in the manifest. Default 512.
    get_partial_values_concurrency
        Maximum number of concurrent reads of one `get_partial_values`. Default 10.
    compression
        Compression of metadata files.
    max_concurrent_requests
        Maximum number of concurrent requests to the object store. Default 256.
    caching
        Cache sizes.
    storage
        Storage settings; unset values have the defaults of the storage.
    virtual_chunk_containers
        Virtual chunk containers by URL prefix.
    manifest
        Preloading, splitting and compression of manifests.
    repo_update_retries
        Retries of updates that lose a race with another writer.
    num_updates_per_repo_info_file
        Entries of the operations log in the repo info file, before older ones move to another
        file. Default 1,000.
    max_concurrent_decodes
        Maximum number of metadata files to decode at once; by default the number of cores.
    """

    inline_chunk_threshold_bytes: int | None = field(default=None, metadata=effective(512))
    get_partial_values_concurrency: int | None = field(default=None, metadata=effective(10))
    compression: CompressionConfig | None = field(
        default=None, metadata=effective(CompressionConfig())
    )
    max_concurrent_requests: int | None = field(default=None, metadata=effective(256))
    caching: CachingConfig | None = field(default=None, metadata=effective(CachingConfig()))
    storage: StorageSettings | None = None
    virtual_chunk_containers: "dict[str, virtual.VirtualChunkContainer] | None" = None
    manifest: ManifestConfig | None = field(default=None, metadata=effective(ManifestConfig()))
    repo_update_retries: RepoUpdateRetryConfig | None = field(
        default=None, metadata=effective(RepoUpdateRetryConfig())
    )
    num_updates_per_repo_info_file: int | None = field(default=None, metadata=effective(1000))
    max_concurrent_decodes: int | None = field(
        default=None, metadata=effective(os.cpu_count() or 1)
    )
    _previous_file: str | None = field(default=None, init=False, repr=False)

    @property
    def previous_file(self) -> str | None:
        """Return the value saved under this name; merging and saving keep it.

        It can't be set: nothing uses it, not even the official library.
        """
        return self._previous_file

    @staticmethod
    def default() -> "RepositoryConfig":
        """Return a configuration with all settings unset."""
        return RepositoryConfig()

    def merge(self, other: "RepositoryConfig") -> "RepositoryConfig":
        """Return this configuration overridden by the values that `other` sets.

        Containers and the rules for preloading and splitting manifests are replaced as a whole.

        Parameters
        ----------
        other
            The configuration that takes precedence.

        Returns
        -------
        RepositoryConfig
            The merged configuration.

        Raises
        ------
        InvalidInputError
            If a container of `other` is invalid.
        """
        for container in (other.virtual_chunk_containers or {}).values():
            virtual.validate_container(container)
        return merge_configs(self, other)

    def get_virtual_chunk_container(self, name: str) -> "virtual.VirtualChunkContainer | None":
        """Return the virtual chunk container with a URL prefix or a name.

        Parameters
        ----------
        name
            URL prefix or name of the container.

        Returns
        -------
        VirtualChunkContainer or None
            The container with this URL prefix, or else with this name; None if there is none.
        """
        containers = self.virtual_chunk_containers or {}
        named = (each for each in containers.values() if each.name == name)
        return containers.get(name) or next(named, None)

    def set_virtual_chunk_container(self, cont: "virtual.VirtualChunkContainer") -> None:
        """Add a container; it replaces containers with the same prefix or name.

        Parameters
        ----------
        cont
            The container.

        Raises
        ------
        InvalidInputError
            If the container is invalid; it is a ValueError.
        """
        virtual.validate_container(cont)
        kept = {
            prefix: each
            for prefix, each in (self.virtual_chunk_containers or {}).items()
            if each.name is None or each.name != cont.name
        }
        self.virtual_chunk_containers = kept | {cont.url_prefix: replace(cont)}

    def clear_virtual_chunk_containers(self) -> None:
        """Remove all containers, also from a configuration that this one is merged over."""
        self.virtual_chunk_containers = {}


def merge_configs(below: RepositoryConfig, above: RepositoryConfig) -> RepositoryConfig:
    """Return `below` overridden by the values that `above` sets; containers are not validated."""
    return merge_settings(below, above, whole=_WHOLE)


# Rules can't be merged field by field.
_WHOLE = frozenset(("preload", "splitting", "virtual_chunk_containers"))

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, repr=False)
class RetentionPolicy(Rendered):
    """Policy that keeps the newest snapshots, recent snapshots, or both; without limits, all.

    The tip of a branch is always kept, whatever its age.

    Parameters
    ----------
    keep_last
        Number of newest snapshots to keep, including the tip.
    keep_for
        Keep snapshots up to this age.

    Raises
    ------
    ValueError
        If `keep_last` is less than 1, or `keep_for` is negative.
    """

    keep_last: int | None = None
    keep_for: timedelta | None = None

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 1:
            raise ValueError(f"invalid keep_last {self.keep_last}: it must be at least 1")
        if self.keep_for is not None and self.keep_for < timedelta(0):
            raise ValueError(f"invalid keep_for {self.keep_for}: it can't be negative")

    def keeps(self, number: int, age: timedelta) -> bool:
        """Return True if the policy keeps a snapshot.

        Parameters
        ----------
        number
            Number of commits between the snapshot and the tip; 0 for the tip.
        age
            Age of the snapshot.
        """
        if self.keep_last is None and self.keep_for is None:
            return True
        is_new = self.keep_last is not None and number < self.keep_last
        return is_new or (self.keep_for is not None and age <= self.keep_for)

    def encode(self) -> dict[str, JsonValue]:
        """Encode the policy as a mapping, without unset values."""
        keep_for = None if self.keep_for is None else self.keep_for // _MICROSECOND
        tree = {"keep_last": self.keep_last, "keep_for_microseconds": keep_for}
        return {name: value for name, value in tree.items() if value is not None}

    @classmethod
    def decode(cls, tree: JsonValue) -> Self:
        """Decode a policy, the inverse of `encode`.

        Parameters
        ----------
        tree
            The encoded policy.

        Returns
        -------
        RetentionPolicy
            The policy.

        Raises
        ------
        FormatError
            If the mapping is not a valid policy.
        """
        if not isinstance(tree, Mapping):
            raise FormatError(f"{tree!r} is no retention policy", kind="config-deserialization")
        keep_last, microseconds = tree.get("keep_last"), tree.get("keep_for_microseconds")
        try:
            keep_for = None if microseconds is None else microseconds * _MICROSECOND
            return cls(keep_last, keep_for)
        except (TypeError, ValueError, OverflowError) as error:
            raise FormatError(
                f"{tree!r} is no retention policy: {error}", kind="config-deserialization"
            ) from error


@dataclass(frozen=True, slots=True)
class EffectiveCaching:
    """Cache sizes with defaults applied; 0 disables a cache."""

    num_snapshot_nodes: int
    num_chunk_refs: int
    num_transaction_changes: int
    num_bytes_attributes: int
    num_bytes_chunks: int


@dataclass(frozen=True, slots=True)
class EffectivePreload:
    """Settings for preloading manifests when a session opens."""

    max_total_refs: int
    preload_if: ManifestPreloadCondition
    max_arrays_to_scan: int


@dataclass(frozen=True, slots=True)
class EffectiveRetries:
    """Retry settings with defaults applied; `max_tries` includes the first try."""

    max_tries: int
    initial_backoff_ms: int
    max_backoff_ms: int


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """Configuration with all defaults applied."""

    inline_chunk_threshold_bytes: int
    """Maximum size of chunks that are stored inline in the manifest."""
    get_partial_values_concurrency: int
    max_concurrent_requests: int
    max_concurrent_decodes: int
    compression_level: int
    caching: EffectiveCaching
    storage: StorageSettings
    """As the user wrote them: the storage supplies the defaults."""
    preload: EffectivePreload
    split_sizes: SplitSizes
    """Split rules in the order of their precedence."""
    location_compression: LocationCompression
    max_concurrent_manifest_fetches_during_commit: int
    repo_update_retries: EffectiveRetries
    num_updates_per_repo_info_file: int
    containers: "tuple[virtual.VirtualChunkContainer, ...]"
    """Valid containers, longest prefix first."""


def resolve_config(config: RepositoryConfig) -> EffectiveConfig:
    """Apply all defaults to a configuration; like the official library, drop invalid containers."""
    manifest = config.manifest or ManifestConfig()
    splitting = manifest.splitting
    compression = config.compression or CompressionConfig()
    return EffectiveConfig(
        inline_chunk_threshold_bytes=effective_value(config, "inline_chunk_threshold_bytes"),
        get_partial_values_concurrency=effective_value(config, "get_partial_values_concurrency"),
        max_concurrent_requests=effective_value(config, "max_concurrent_requests"),
        max_concurrent_decodes=effective_value(config, "max_concurrent_decodes"),
        compression_level=effective_value(compression, "level"),
        caching=EffectiveCaching(**_all_effective(config.caching or CachingConfig())),
        storage=config.storage or StorageSettings(),
        preload=_resolve_preload(manifest),
        split_sizes=(splitting and splitting.split_sizes) or DEFAULT_SPLIT_SIZES,
        location_compression=LocationCompression(
            **_all_effective(effective_value(manifest, "virtual_chunk_location_compression"))
        ),
        max_concurrent_manifest_fetches_during_commit=effective_value(
            manifest, "max_concurrent_manifest_fetches_during_commit"
        ),
        repo_update_retries=_resolve_retries(config),
        num_updates_per_repo_info_file=effective_value(config, "num_updates_per_repo_info_file"),
        containers=usable_containers(config),
    )


def usable_containers(config: RepositoryConfig) -> "tuple[virtual.VirtualChunkContainer, ...]":
    """Return the valid containers, longest prefix first.

    Prefixes in old repositories may lack the final `/`, which is added.
    """
    found = (config.virtual_chunk_containers or {}).values()
    if not found:
        return ()
    closed = [replace(each, url_prefix=close_prefix(each.url_prefix)) for each in found]
    usable = filter(virtual.is_valid_container, closed)
    return tuple(sorted(usable, key=lambda each: len(each.url_prefix), reverse=True))


def close_prefix(url_prefix: str) -> str:
    """Return the prefix with a final `/`."""
    return url_prefix if url_prefix.endswith("/") else f"{url_prefix}/"


def _resolve_preload(manifest: ManifestConfig) -> EffectivePreload:
    preload = effective_value(manifest, "preload")
    return EffectivePreload(
        effective_value(preload, "max_total_refs"),
        preload.preload_if or DEFAULT_PRELOAD_IF,
        effective_value(preload, "max_arrays_to_scan"),
    )


def _resolve_retries(config: RepositoryConfig) -> EffectiveRetries:
    retries = config.repo_update_retries or RepoUpdateRetryConfig()
    found = EffectiveRetries(**_all_effective(effective_value(retries, "default")))
    return replace(found, max_tries=max(1, found.max_tries))


def _all_effective(settings: Any) -> dict[str, Any]:
    return {each.name: effective_value(settings, each.name) for each in fields(settings)}
