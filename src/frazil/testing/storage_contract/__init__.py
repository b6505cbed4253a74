"""The tests that every storage passes: inherit `StorageContract` and give it a `storage`.

::

    class TestMemoryStorage(StorageContract):
        is_shared_between_processes = False

        @pytest.fixture
        def storage(self) -> Storage:
            return MemoryStorage()

The fixture gives a fresh, empty storage to each test. What a storage does not promise is said by the
attributes of `Promises`. A storage that only reads inherits `ReadOnlyStorageContract`, and gives also a
fixture `writer`: another storage, which writes what the first one reads.
"""

import pytest

# Before they are imported, so that a failed assertion shows its values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in ("listing", "promising", "racing", "reading", "travelling", "writing")
    )
)

from frazil.testing.storage_contract.listing import ListingContract  # noqa: E402
from frazil.testing.storage_contract.promises import Promises  # noqa: E402
from frazil.testing.storage_contract.promising import PromisingContract  # noqa: E402
from frazil.testing.storage_contract.racing import RacingContract  # noqa: E402
from frazil.testing.storage_contract.reading import ReadingContract  # noqa: E402
from frazil.testing.storage_contract.travelling import TravellingContract  # noqa: E402
from frazil.testing.storage_contract.writing import WritingContract  # noqa: E402

__all__ = ["Promises", "ReadOnlyStorageContract", "StorageContract"]


class ReadOnlyStorageContract(
    PromisingContract, ReadingContract, ListingContract, TravellingContract
):
    """Every verb and rule of `frazil.storage.interface` for a storage that only reads."""

    is_read_only = True


class StorageContract(
    PromisingContract,
    ReadingContract,
    WritingContract,
    ListingContract,
    RacingContract,
    TravellingContract,
):
    """Every verb and rule of `frazil.storage.interface`."""
