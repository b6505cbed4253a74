"""The pieces of an array's Zarr metadata in a tree."""

from collections.abc import Mapping

from frazil.format.checked import as_list, as_text, as_variant
from frazil.format.fill_values import unwrap_fill_value, wrap_fill_value
from frazil.format.json_values import JsonValue
from frazil.format.trees.form import TreeForm
from frazil.format.zarr_metadata import (
    ArrayMetadata,
    Extension,
    check_dimension_names,
    check_extension,
    check_lengths,
)

_FIELDS = (
    "shape",
    "data_type",
    "chunk_shape",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "storage_transformers",
    "dimension_names",
)
_EXTENSION_FIELDS = ("name", "configuration")


def read_array_metadata(
    value: object, attributes: dict[str, JsonValue] | None, form: TreeForm
) -> ArrayMetadata:
    """The metadata, with the attributes, which are stored beside it."""
    fields = form.read_struct("zarr_metadata", value, _FIELDS)
    data_type = form.read_data_type(fields["data_type"])
    variant, content = as_variant("fill_value", fields["fill_value"])
    transformers = fields["storage_transformers"]
    return ArrayMetadata(
        attributes=attributes,
        shape=check_lengths("shape", fields["shape"]),
        data_type=data_type,
        chunk_shape=check_lengths("chunk_shape", fields["chunk_shape"]),
        chunk_key_encoding=as_text("chunk_key_encoding", fields["chunk_key_encoding"]),
        fill_value=unwrap_fill_value(data_type, variant, form.read_fill_content(content)),
        codecs=_read_extensions("codecs", fields["codecs"], form),
        storage_transformers=None
        if transformers is None
        else _read_extensions("storage_transformers", transformers, form),
        dimension_names=check_dimension_names(fields["dimension_names"]),
    )


def write_array_metadata(metadata: ArrayMetadata, form: TreeForm) -> object:
    """The reverse of `read_array_metadata`; the attributes go elsewhere."""
    transformers = metadata.storage_transformers
    return form.write_struct(
        {
            "shape": metadata.shape,
            "data_type": form.write_data_type(metadata.data_type),
            "chunk_shape": metadata.chunk_shape,
            "chunk_key_encoding": metadata.chunk_key_encoding,
            "fill_value": wrap_fill_value(
                metadata.data_type, metadata.fill_value, form.write_float
            ),
            "codecs": _write_extensions(metadata.codecs, form),
            "storage_transformers": None
            if transformers is None
            else _write_extensions(transformers, form),
            "dimension_names": metadata.dimension_names,
        }
    )


def _read_extensions(what: str, value: object, form: TreeForm) -> tuple[Extension, ...]:
    def read(item: object) -> Extension:
        fields: Mapping[str, object] = form.read_struct(what, item, _EXTENSION_FIELDS)
        return check_extension(what, fields["name"], fields["configuration"])

    return tuple(map(read, as_list(what, value)))


def _write_extensions(extensions: tuple[Extension, ...], form: TreeForm) -> object:
    # A configuration keeps the order of its keys: the official library wrote them in no order.
    return tuple(
        form.write_struct({"name": item.name, "configuration": item.configuration})
        for item in extensions
    )
