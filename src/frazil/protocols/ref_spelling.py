"""How the name of a ref is spelled in a key, in the generations that keep a file for each ref.

On most storages the official library percent-encodes what is unusual in a name, on S3 it leaves names
as they are. Written is what it finds on that storage; read are both.
"""

from dataclasses import dataclass
from urllib.parse import quote, unquote

from frazil.protocols.ref_names import validate_folder_name

_PLAIN = " !$&'()+,:;=@"
"""What is not encoded, besides letters, digits and `_.-`."""


@dataclass(frozen=True, slots=True)
class RefSpelling:
    """The spelling that belongs to a storage."""

    is_encoded: bool

    def spell(self, name: str) -> tuple[str, ...]:
        """All spellings of a name, the one to write first; raises InvalidInputError for no name."""
        encoded = encode_name(validate_folder_name(name))
        both = (encoded, name) if self.is_encoded else (name, encoded)
        # A zero byte can stand in no key.
        return tuple(dict.fromkeys(each for each in both if "\0" not in each))

    def read(self, spelled: str) -> str:
        """The name that was meant."""
        name = unquote(spelled)
        return name if self.is_encoded and encode_name(name) == spelled else spelled


def encode_name(name: str) -> str:
    """A name with its unusual characters percent-encoded."""
    return quote(name, safe=_PLAIN).replace("~", "%7E")
