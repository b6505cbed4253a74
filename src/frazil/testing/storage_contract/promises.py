"""What a storage promises, and the fixtures that skip a test of something it does not."""

from typing import ClassVar

import pytest

from frazil.storage.interface import Storage

BAD_KEYS = ("", ".", "..", "/a", "a/", "a//b", "../a", "a/..", "a/../b", "./a", "a/./b", "a\0b")


class Promises:
    """Attributes that a storage's test class changes where its storage promises less."""

    is_read_only: ClassVar[bool] = False
    has_conditional_writes: ClassVar[bool] = True
    """Whether `create` and `replace` have one winner."""
    can_list: ClassVar[bool] = True
    is_shared_between_processes: ClassVar[bool] = True
    """Whether another process that unpickles the storage finds the same objects."""
    survives_fork: ClassVar[bool] = True
    """Whether a storage that was used can be used in a forked process, too; if not, it must say so."""

    large_object_bytes: ClassVar[int] = 20 << 20
    many_objects: ClassVar[int] = 1_100
    """More than one answer of an object store lists."""
    race_threads: ClassVar[int] = 16
    race_rounds: ClassVar[int] = 1_000
    clock_difference_seconds: ClassVar[float] = 60
    """How far the storage's clock may be from this machine's."""

    @pytest.fixture
    def writer(self, storage: Storage) -> Storage:
        """Who writes the objects that a test of reading needs."""
        if self.is_read_only:
            pytest.fail("a storage that only reads needs a fixture `writer`")
        return storage

    @pytest.fixture
    def writable(self, storage: Storage) -> Storage:
        """The storage, if it can be written to."""
        if self.is_read_only:
            pytest.skip("this storage only reads")
        return storage

    @pytest.fixture
    def conditional(self, writable: Storage) -> Storage:
        """The storage, if `create` and `replace` have one winner."""
        if not self.has_conditional_writes:
            pytest.skip("this storage has no conditional writes")
        return writable

    @pytest.fixture
    def listable(self, storage: Storage) -> Storage:
        """The storage, if it can list its objects."""
        if not self.can_list:
            pytest.skip("this storage can't list")
        return storage

    @pytest.fixture
    def shared(self, storage: Storage) -> Storage:
        """The storage, if other processes find the same objects in it."""
        if not self.is_shared_between_processes:
            pytest.skip("this storage is of one process")
        return storage
