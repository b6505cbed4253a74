"""Who asks, told to the owner of a bucket in the requests themselves."""

import re
from dataclasses import dataclass

from frazil.errors import InvalidInputError
from frazil.rendering import Rendered

LARGEST_LABEL_BYTES = 128

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_CLIENT = re.compile(rf"{_TOKEN}(/{_TOKEN})?")
_LABEL = re.compile(r"[ !#-'*-:<>-\[\]-~]*")  # what can be printed, but no ( ) \ ; = or "


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Attribution(Rendered):
    """Labels for the User-Agent header of every request of a repository.

    `client` is the software (`name` or `name/version`), `workload` what it does, `principal` on whose
    behalf. Raises InvalidInputError, a ValueError, for what a header can't hold.
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
        """The labels as a header has them; empty if there are none."""
        labels = {"workload": self.workload, "principal": self.principal}
        named = "; ".join(f"{name}={label}" for name, label in labels.items() if label is not None)
        return " ".join(filter(None, (self.client, named and f"({named})")))


def _check(name: str, label: str | None, allowed: re.Pattern[str]) -> None:
    if label is None:
        return
    if len(label.encode()) > LARGEST_LABEL_BYTES:
        problem = f"is longer than {LARGEST_LABEL_BYTES} bytes"
    elif not allowed.fullmatch(label) and allowed is _CLIENT:
        problem = "is not `name` or `name/version` of token characters"
    elif not allowed.fullmatch(label):
        problem = 'has a forbidden character: only printable ASCII without ( ) \\ ; = "'
    else:
        return
    raise InvalidInputError(f"attribution: {name} {label!r} {problem}", kind="not-allowed")
