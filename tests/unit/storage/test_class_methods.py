"""`Storage.new_…` make what the functions make."""

from pathlib import Path

import pytest

from frazil.credentials import s3_anonymous_credentials
from frazil.errors import InvalidInputError
from frazil.storage import LocalStorage, MemoryStorage, ObjectStorage, S3Options, Storage


def test_memory_and_disk_are_made(tmp_path: Path) -> None:
    assert isinstance(Storage.new_in_memory(), MemoryStorage)
    assert isinstance(Storage.new_local_filesystem(str(tmp_path)), LocalStorage)


def test_object_stores_are_made_without_a_connection() -> None:
    options, who = S3Options("eu-west-1"), s3_anonymous_credentials()
    made = [
        Storage.new_s3(options, "bucket", "prefix", who),
        Storage.new_s3_object_store(options, "bucket", None),
        Storage.new_tigris(options, "bucket", None, False, who),
        Storage.new_r2(options, "bucket", "prefix", "account", who),
        Storage.new_hf(options, "bucket", None, "owner"),
        Storage.new_gcs("bucket", "prefix"),
        Storage.new_azure_blob("account", "container", "prefix"),
        Storage.new_http("https://host/path"),
        Storage.new_redirect("https://host/path"),
    ]

    assert all(isinstance(each, ObjectStorage) for each in made)
    assert "bucket" in repr(made[0])


def test_the_layout_of_old_clients_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="begin with a slash"):
        Storage.new_s3(S3Options(), "bucket", None, None, True)


def test_a_notebook_shows_a_storage() -> None:
    shown = Storage.new_in_memory()._repr_html_()

    assert "frazil.Storage" in shown
    assert "in-memory" in shown
