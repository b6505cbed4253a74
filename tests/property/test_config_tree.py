"""Any configuration goes to its saved form and back, and any tree is read or refused, never half."""

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from frazil.config import (
    CachingConfig,
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadCondition,
    ManifestPreloadConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    RepositoryConfig,
)
from frazil.config.conditions import (
    AllOf,
    Always,
    AnyOf,
    NameMatches,
    Never,
    NumRefs,
    PathMatches,
    Rule,
)
from frazil.config.saved_config import decode_config, encode_config
from frazil.config.settings import resolve_config
from frazil.errors import FormatError
from frazil.format.metadata import decode_flexbuffers, encode_flexbuffers
from frazil.format.text_files import decode_config_yaml, encode_config_yaml
from frazil.storage import ObjectStoreConfig, S3Options
from frazil.virtual import VirtualChunkContainer

TEXTS = st.text(max_size=8)
NAMES = TEXTS.filter(lambda text: "\0" not in text)
"""What a key can be: FlexBuffers end theirs with a zero."""
MAPS = st.dictionaries(NAMES, TEXTS, max_size=3)


def numbers(bits: int) -> st.SearchStrategy[int | None]:
    """What fits, or nothing."""
    return st.none() | st.integers(0, 2**bits - 1)


def rules(*more: st.SearchStrategy[Any]) -> st.SearchStrategy[Rule]:
    """Rules inside rules."""
    leaves = st.one_of(
        st.builds(PathMatches, TEXTS), st.builds(NameMatches, TEXTS), st.just(Always()), *more
    )

    def join(inner: st.SearchStrategy[Rule]) -> st.SearchStrategy[Rule]:
        parts = st.lists(inner, max_size=3).map(tuple)
        return st.builds(AnyOf, parts) | st.builds(AllOf, parts)

    return st.recursive(leaves, join, max_leaves=6)


OPTIONS = st.builds(S3Options, st.none() | TEXTS, st.none() | TEXTS, st.booleans(), st.booleans())
STORES = st.one_of(
    st.just(ObjectStoreConfig.InMemory()),
    st.builds(ObjectStoreConfig.LocalFileSystem, TEXTS),
    st.builds(ObjectStoreConfig.S3, OPTIONS),
    st.builds(ObjectStoreConfig.Tigris, OPTIONS),
    st.builds(ObjectStoreConfig.Gcs, MAPS),
    st.builds(ObjectStoreConfig.Azure, MAPS),
)
CONTAINERS = st.builds(VirtualChunkContainer, TEXTS, STORES, st.none() | TEXTS)
DIMS = st.one_of(
    st.builds(ManifestSplitDimCondition.Axis, st.integers(0, 2**64 - 1)),
    st.builds(ManifestSplitDimCondition.DimensionName, TEXTS),
    st.just(ManifestSplitDimCondition.Any()),
)
SIZES = st.lists(st.tuples(DIMS, st.integers(0, 2**32 - 1)), max_size=3).map(tuple)
SPLITS = st.lists(st.tuples(st.builds(ManifestSplitCondition, rules()), SIZES), max_size=3)
PRELOADS = st.builds(
    ManifestPreloadCondition,
    rules(st.builds(NumRefs, numbers(32), numbers(32)), st.just(Never())),
)
CONFIGS = st.builds(
    RepositoryConfig,
    inline_chunk_threshold_bytes=numbers(16),
    compression=st.none() | st.builds(CompressionConfig, level=numbers(8)),
    caching=st.none() | st.builds(CachingConfig, numbers(64), num_bytes_chunks=numbers(64)),
    virtual_chunk_containers=st.none() | st.dictionaries(NAMES, CONTAINERS, max_size=3),
    manifest=st.none()
    | st.builds(
        ManifestConfig,
        st.none() | st.builds(ManifestPreloadConfig, numbers(32), st.none() | PRELOADS),
        st.none() | st.builds(ManifestSplittingConfig, st.none() | SPLITS.map(tuple)),
    ),
)


@given(CONFIGS)
def test_a_configuration_survives_both_ways_of_saving_it(config: RepositoryConfig) -> None:
    tree = encode_config(config)

    assert decode_config(decode_config_yaml(encode_config_yaml(tree))) == config
    assert decode_config(decode_flexbuffers(encode_flexbuffers(tree))) == config


@given(CONFIGS)
def test_every_configuration_means_something(config: RepositoryConfig) -> None:
    effective = resolve_config(config)

    for condition, _ in effective.split_sizes:
        condition.matches("/a")
    effective.preload.preload_if.matches("/a", 3)
    assert all(each.url_prefix.endswith("/") for each in effective.containers)


KEYS = st.sampled_from(
    ["manifest", "preload", "preload_if", "splitting", "split_sizes", "or", "num_refs", "from",
     "virtual_chunk_containers", "url_prefix", "store", "s3", "http", "storage", "compression",
     "level", "name", "Included", "regex", "headers"]
)  # fmt: skip
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(TREES)
def test_any_tree_is_read_or_refused(tree: Any) -> None:
    with contextlib.suppress(FormatError):
        encode_config(decode_config(tree))
