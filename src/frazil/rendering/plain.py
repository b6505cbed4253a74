"""Values as JSON has them."""

import dataclasses
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from enum import Enum
from typing import Any


def to_plain(value: Any) -> Any:
    """A value made of mappings, lists, text, numbers and None."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.name.lower() if not isinstance(value.value, str) else value.value
        case str():
            return value
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case Mapping():
            return {str(name): to_plain(each) for name, each in value.items()}
        case AbstractSet():
            return sorted(map(to_plain, value))
    return _of_object(value)


def _of_object(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return to_plain(value.to_dict())
    if dataclasses.is_dataclass(value):
        fields = (each.name for each in dataclasses.fields(value) if not each.name.startswith("_"))
        return {name: to_plain(getattr(value, name)) for name in fields}
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    if hasattr(value, "__iter__"):
        return [to_plain(each) for each in value]
    return str(value)
