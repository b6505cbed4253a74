"""Which names branches and tags may have: almost any, the empty one too, as in Icechunk."""

from frazil.errors import InvalidInputError


def validate_name(name: str) -> str:
    """The name itself, if it is text that a file can hold."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise _refusal(name, "it is not whole Unicode text") from error
    return name


def validate_folder_name(name: str) -> str:
    """The name itself, if it can also be part of a folder's name: V1 and older keep refs in files."""
    if "/" in name:
        raise _refusal(name, "this generation of repositories allows no slash")
    return validate_name(name)


def _refusal(name: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{name!r} is no name for a ref: {reason}", kind="invalid-ref-name")
