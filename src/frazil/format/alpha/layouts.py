"""The eight MessagePack layouts of the alpha releases, as a table."""

from dataclasses import dataclass

from frazil.errors import InvalidInputError
from frazil.format.dialect import Dialect


@dataclass(frozen=True, slots=True)
class Layout:
    """What one layout looks like."""

    dialect: Dialect
    format_version: int | None
    """The number that most structs carry; 0.1.0 dropped it."""
    has_numbered_nodes: bool = False
    has_binary_ids: bool = False
    """Ids as bytes; as base32 text otherwise."""
    manifest_file_sizes: tuple[str, ...] = ()
    """What a snapshot records of a manifest file, named as in `ManifestFileInfo`."""
    has_checksums: bool = True
    """Whether virtual references have a place for one."""
    has_header: bool = True
    """With it comes zstd, for all files."""
    has_bare_zstd_manifests: bool = False
    has_chunks_by_node: bool = False
    """Manifests as `{node: {coordinates: payload}}`; `{(node, coordinates): payload}` otherwise."""
    has_manifest_id: bool = False
    has_extents: bool = False
    has_history: bool = True
    has_transaction_logs: bool = True


_A = Layout(
    Dialect.ALPHA_A,
    format_version=0,
    has_numbered_nodes=True,
    has_checksums=False,
    has_header=False,
    has_transaction_logs=False,
)
_B = Layout(Dialect.ALPHA_B, format_version=0, has_checksums=False, has_header=False)
_C = Layout(Dialect.ALPHA_C, format_version=0, has_header=False)
_D = Layout(
    Dialect.ALPHA_D,
    format_version=0,
    manifest_file_sizes=("size_bytes",),
    has_header=False,
    has_bare_zstd_manifests=True,
)
_E = Layout(Dialect.ALPHA_E, format_version=1, manifest_file_sizes=("size_bytes",))
_F = Layout(
    Dialect.ALPHA_F,
    format_version=1,
    manifest_file_sizes=("size_bytes",),
    has_binary_ids=True,
    has_chunks_by_node=True,
)
_G = Layout(
    Dialect.ALPHA_G,
    format_version=1,
    manifest_file_sizes=("size_bytes", "num_chunk_refs"),
    has_binary_ids=True,
    has_chunks_by_node=True,
    has_manifest_id=True,
    has_extents=True,
)
_H = Layout(
    Dialect.ALPHA_H,
    format_version=None,
    manifest_file_sizes=("size_bytes", "num_chunk_refs"),
    has_binary_ids=True,
    has_chunks_by_node=True,
    has_manifest_id=True,
    has_extents=True,
    has_history=False,
)

LAYOUTS = {layout.dialect: layout for layout in (_A, _B, _C, _D, _E, _F, _G, _H)}
"""Oldest first."""


def get_layout(dialect: Dialect) -> Layout:
    """The layout of an alpha dialect."""
    layout = LAYOUTS.get(dialect)
    if layout is None:
        raise InvalidInputError(f"{dialect} is no dialect of the alpha releases")
    return layout
