"""Promising: a storage says of itself what its test class says of it."""

import pytest

from frazil.errors import ReadOnlyError
from frazil.storage.interface import Storage
from frazil.testing.storage_contract.promises import Promises
from frazil.testing.storage_contract.writing import WRITES


class PromisingContract(Promises):
    """What a storage can be asked before anything is written to it."""

    def test_it_says_what_it_promises(self, storage: Storage) -> None:
        assert storage.is_read_only == self.is_read_only
        if not self.is_read_only:
            assert storage.can_create_safely == self.has_conditional_writes
            assert storage.can_replace_safely == self.has_conditional_writes

    def test_a_storage_that_only_reads_refuses_every_write_and_no_other_does(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("object", b"old")

        if self.is_read_only:
            for write in WRITES.values():
                with pytest.raises(ReadOnlyError):
                    write(storage, "object")
        else:
            storage.put("object", b"old")

        assert bytes(storage.get("object")) == b"old"
