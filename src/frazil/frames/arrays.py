"""The arrays of a group, opened where they are read."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from xarray import Dataset

from frazil.errors import InvalidInputError
from frazil.format.references import VirtualRef
from frazil.frames.columns import group_path, open_dataset
from frazil.frames.grids import Region
from frazil.frames.types import Values, make_values
from frazil.session import Session

_UNAUTHORIZED = "unauthorized-virtual-chunk-container"


class Arrays:
    """The arrays of a group; where they are sent to they are opened again."""

    def __init__(self, session: Session, group: str, names: Sequence[str]) -> None:
        self.session = session
        self.group = group
        self.names = tuple(names)
        self._opened: Dataset | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (Arrays, (self.session, self.group, self.names))

    def open(self) -> Dataset:
        """All of them as Xarray decodes them, nothing of them read."""
        if self._opened is None:
            self._opened = open_dataset(self.session, self.group, self.names)
        return self._opened

    def read(self, name: str, type: pa.DataType, region: Region) -> Values:
        """The values of an array in a region; raises InvalidInputError if it may not be read."""
        variable: Any = self.open().variables[name]
        try:
            return make_values(variable[region].values, type)
        except InvalidInputError as error:
            raise _explain(error) from error

    def check_access(self, name: str, chunk: tuple[int, ...]) -> None:
        """Raise InvalidInputError if a chunk of an array is virtual and may not be read."""
        state = self.session.state
        node, _ = state.view.get_array(f"{group_path(self.group).rstrip('/')}/{name}")
        ref = state.view.find_chunk(node, chunk)
        if isinstance(ref, VirtualRef):
            try:
                state.surroundings.virtual.check_location(ref.location)
            except InvalidInputError as error:
                raise _explain(error) from error

    @property
    def is_restricted(self) -> bool:
        """Whether there may be chunks that can't be read."""
        return self.session.state.surroundings.virtual.is_restricted


def _explain(error: InvalidInputError) -> InvalidInputError:
    if error.kind != _UNAUTHORIZED:
        return error
    what, _, _ = error.message.partition(": to read")
    prefix = what.rpartition(" at ")[2].partition(" ")[0]
    return InvalidInputError(
        f'{what}: add option("authorize", "{prefix}"), or authorize=["{prefix}"] in Python; "*" is '
        "every container that the repository declares",
        kind=error.kind,
    )
