"""Listing: by prefix, in order, while it goes on, with sizes and times."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from frazil.storage.interface import Storage
from frazil.testing.storage_contract.promises import Promises

KEYS = ("repo", "chunks/a", "chunks/ab", "chunks/b", "chunk-list", "refs/branch.main/ref.json")


def _keys(storage: Storage, prefix: str = "") -> set[str]:
    found = [info.key for info in storage.list(prefix)]
    assert len(found) == len(set(found))
    return set(found)


class ListingContract(Promises):
    """What a storage tells about all that it holds."""

    def test_an_empty_storage_lists_nothing(self, listable: Storage) -> None:
        assert _keys(listable) == set()
        assert list(listable.list_sorted()) == []
        assert _keys(listable, "folder/") == set()

    @pytest.mark.parametrize(
        ("prefix", "expected"),
        [
            ("", set(KEYS)),
            ("chunks/", {"chunks/a", "chunks/ab", "chunks/b"}),
            ("chunks/a", {"chunks/a", "chunks/ab"}),
            ("chunks/ab", {"chunks/ab"}),
            ("chunk", {"chunks/a", "chunks/ab", "chunks/b", "chunk-list"}),
            ("refs/", {"refs/branch.main/ref.json"}),
            ("refs/branch.", {"refs/branch.main/ref.json"}),
            ("refs/branch.main/", {"refs/branch.main/ref.json"}),
            ("repo", {"repo"}),
            ("repo/", set()),
            ("chunks/c", set()),
            ("missing/", set()),
            ("missing/folder/", set()),
        ],
    )
    def test_a_prefix_ends_anywhere(
        self, listable: Storage, writer: Storage, prefix: str, expected: set[str]
    ) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        assert _keys(listable, prefix) == expected
        assert [info.key for info in listable.list_sorted(prefix)] == sorted(expected)

    @pytest.mark.parametrize("prefix", ["", "chunks/", "chunks/a", "missing/"])
    def test_what_is_chosen_is_described_as_in_the_whole_list(
        self, listable: Storage, writer: Storage, prefix: str
    ) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        chosen = listable.list_chosen(prefix, lambda keys: [key.endswith("b") for key in keys])

        expected = {info for info in listable.list(prefix) if info.key.endswith("b")}
        assert set(chosen) == expected

    @pytest.mark.parametrize(
        ("after", "before"),
        [("", "~"), ("chunks/a", "chunks/b"), ("chunks/a", "chunks/a~"), ("x", "a")],
    )
    def test_what_is_between_two_keys_is_listed_without_these(
        self, listable: Storage, writer: Storage, after: str, before: str
    ) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        found = listable.list_between("chunks/", after, before)

        between = {info for info in listable.list("chunks/") if after < info.key < before}
        assert set(found) == between

    def test_a_sorted_list_is_in_the_order_of_the_keys_bytes(
        self, listable: Storage, writer: Storage
    ) -> None:
        keys = [
            "A", "a!", "a-/c", "a.b", "a/!", "a/b", "a/b-", "a/b0/c", "a0", "a1/b", "b", "ø", "雪",
            "\ue000", "😀",
        ]  # fmt: skip
        for key in reversed(keys):
            writer.put(key, b"data")

        assert [info.key for info in listable.list_sorted()] == keys
        assert keys == sorted(keys, key=str.encode)

    def test_listed_objects_have_sizes_and_times(self, listable: Storage, writer: Storage) -> None:
        for size in (0, 1, 1000):
            writer.put(f"objects/{size}", b"x" * size)

        for info in listable.list("objects/"):
            head = listable.head(info.key)
            assert info.size_bytes == head.size_bytes == int(info.key.removeprefix("objects/"))
            assert info.created_at.utcoffset() == timedelta(0)
            # Some storages tell full seconds in one place and parts of them in another.
            assert abs(info.created_at - head.created_at) <= timedelta(seconds=1)

    def test_a_list_is_read_as_it_comes(self, listable: Storage, writer: Storage) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        listing = listable.list()

        assert isinstance(listing, Iterator)
        assert next(listing).key in KEYS
        assert len(list(listing)) == len(KEYS) - 1

    def test_objects_may_be_deleted_while_they_are_listed(
        self, listable: Storage, writer: Storage
    ) -> None:
        keys = {f"folder-{number % 3}/{number}" for number in range(30)}
        for key in keys:
            writer.put(key, b"data")

        seen = set()
        for info in listable.list():
            writer.delete_many([info.key])
            seen.add(info.key)

        assert seen == keys
        assert _keys(listable) == set()

    def test_deleted_objects_are_not_listed(self, listable: Storage, writer: Storage) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        writer.delete_many(KEYS[1:])

        assert _keys(listable) == {KEYS[0]}

    def test_more_objects_are_listed_than_one_answer_holds(
        self, listable: Storage, writer: Storage
    ) -> None:
        expected = [f"objects/{number:06}" for number in range(self.many_objects)]
        for key in expected:
            writer.put(key, b"")

        assert _keys(listable, "objects/") == set(expected)
        assert [info.key for info in listable.list_sorted("objects/0")] == expected

    def test_nothing_but_objects_is_listed_after_writes_of_all_kinds(
        self, listable: Storage, conditional: Storage
    ) -> None:
        conditional.put("put", b"data")
        version = conditional.create("created", b"data")
        conditional.replace("created", b"more", version)
        conditional.copy("created", "copied")

        assert _keys(listable) == {"put", "created", "copied"}
