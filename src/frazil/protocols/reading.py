"""Reading ref files that may not be there."""

from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.refs import Ref, decode_ref
from frazil.storage.interface import Buffer, Storage


def find_object(storage: Storage, key: str) -> Buffer | None:
    """An object's bytes, if there is such an object."""
    try:
        return storage.get(key)
    except ObjectNotFoundError:
        return None


def decode_ref_file(key: str, data: Buffer) -> Ref:
    """What a ref file says; raises FormatError that names the file."""
    try:
        return decode_ref(bytes(data))
    except FormatError as error:
        raise FormatError(f"{key}: {error.message}", kind="serialization") from error
