"""What Frazil itself keeps in the metadata of a V2 repository, under one key, by sections: pure.

The official library takes it for metadata like any other, and carries it along.
"""

from collections.abc import Mapping

from frazil.format.json_values import JsonValue

RESERVED = "__frazil"
"""The key; in the metadata of commits, too."""


def read_section(metadata: Mapping[str, JsonValue], section: str) -> Mapping[str, JsonValue]:
    """A section; empty where there is none, or something that Frazil never wrote."""
    found = _read_sections(metadata).get(section)
    return found if isinstance(found, dict) else {}


def with_section(
    metadata: Mapping[str, JsonValue], section: str, content: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """The metadata with another content of a section; without the key where nothing is left."""
    sections = {**_read_sections(metadata), section: dict(content)}
    filled = {name: each for name, each in sections.items() if each}
    others = {name: each for name, each in metadata.items() if name != RESERVED}
    return {**others, RESERVED: filled} if filled else others


def keep_reserved(
    before: Mapping[str, JsonValue], metadata: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """New metadata, with what Frazil keeps in the old one unless it says something of that itself."""
    if RESERVED not in before:
        return dict(metadata)
    return {RESERVED: before[RESERVED], **metadata}


def _read_sections(metadata: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    found = metadata.get(RESERVED)
    return found if isinstance(found, dict) else {}
