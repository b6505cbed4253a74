"""Settings: what they mean, how they show, merge and travel."""

import pickle

import pytest

import frazil.storage
from frazil.storage.interface import (
    LOCAL_DEFAULTS,
    MEMORY_DEFAULTS,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    merge_settings,
    resolve_settings,
)
from frazil.storage.store_config import ChecksumAlgorithm, ObjectStoreConfig, S3Options

SHOWN = [
    StorageSettings(),
    StorageSettings(
        concurrency=StorageConcurrencySettings(3),
        retries=StorageRetriesSettings(max_tries=4, initial_backoff_ms=5),
        unsafe_use_metadata=False,
        storage_class='odd "class"\n',
        timeouts=StorageTimeoutSettings(connect_timeout_ms=5),
    ),
    StorageConcurrencySettings(),
    StorageRetriesSettings(1, 2, 3),
    StorageTimeoutSettings(1, 2, 3, 4),
    S3Options("eu-central-1", checksum_algorithm=ChecksumAlgorithm.Crc32c),
    ObjectStoreConfig.S3(S3Options("eu-central-1")),
    ObjectStoreConfig.S3Compatible(S3Options(endpoint_url="http://localhost")),
    ObjectStoreConfig.Tigris(S3Options("eu-central-1")),
    ObjectStoreConfig.InMemory(),
    ObjectStoreConfig.LocalFileSystem("/data"),
    ObjectStoreConfig.Gcs({"base_url": "https://host"}),
    ObjectStoreConfig.Gcs(),
    ObjectStoreConfig.Azure({"account": "a"}),
    ObjectStoreConfig.Http({"timeout": "5s"}),
]


@pytest.mark.parametrize("value", SHOWN, ids=range(len(SHOWN)))
def test_a_representation_can_be_run_and_gives_the_same(value: object) -> None:
    assert eval(repr(value), {"frazil": frazil}) == value


@pytest.mark.parametrize("value", SHOWN, ids=range(len(SHOWN)))
def test_settings_survive_pickling(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


def test_settings_show_what_holds_where_nothing_is_set() -> None:
    shown = str(StorageSettings(retries=StorageRetriesSettings(max_tries=3)))

    assert (
        shown
        == """\
<frazil.storage.StorageSettings>
concurrency:
    <frazil.storage.StorageConcurrencySettings>
    max_concurrent_requests_for_object: 18 (default)
    ideal_concurrent_request_size: 12582912 (default)
retries:
    <frazil.storage.StorageRetriesSettings>
    max_tries: 3
    initial_backoff_ms: 100 (default)
    max_backoff_ms: 180000 (default)
unsafe_use_conditional_create: True (default)
unsafe_use_conditional_update: True (default)
unsafe_use_metadata: True (default)
storage_class: None
metadata_storage_class: None
chunks_storage_class: None
minimum_size_for_multipart_upload: 104857600 (default)
timeouts: None
"""
    )


def test_a_configuration_shows_the_options_of_its_store() -> None:
    shown = str(ObjectStoreConfig.S3(S3Options("eu-central-1")))

    assert shown.startswith('<frazil.config.ObjectStoreConfig.S3>\nregion: "eu-central-1"\n')


def test_defaults_apply_where_nothing_is_set() -> None:
    effective = resolve_settings(StorageSettings())

    assert effective.max_tries == 10
    assert effective.initial_backoff_seconds == 0.1
    assert effective.max_backoff_seconds == 180
    assert effective.minimum_size_for_multipart_upload == 100 << 20
    assert effective.uses_conditional_create
    assert effective.uses_conditional_update
    assert effective.uses_metadata
    assert effective.read_timeout_seconds is None


def test_the_storage_class_holds_for_metadata_and_chunks_that_have_none() -> None:
    effective = resolve_settings(StorageSettings(storage_class="A", chunks_storage_class="B"))

    assert (effective.metadata_storage_class, effective.chunks_storage_class) == ("A", "B")


def test_disk_and_memory_have_defaults_of_their_own() -> None:
    disk, memory = resolve_settings(LOCAL_DEFAULTS), resolve_settings(MEMORY_DEFAULTS)

    assert (disk.max_tries, disk.max_concurrent_requests_for_object) == (1, 5)
    assert (disk.ideal_concurrent_request_size, disk.uses_metadata) == (4096, False)
    assert (memory.ideal_concurrent_request_size, memory.uses_metadata) == (1, True)


def test_what_is_set_above_wins_field_by_field() -> None:
    below = StorageSettings(
        retries=StorageRetriesSettings(3, 4, 5), storage_class="A", unsafe_use_metadata=False
    )
    above = StorageSettings(
        retries=StorageRetriesSettings(max_tries=9), timeouts=StorageTimeoutSettings(1)
    )

    merged = merge_settings(below, above)

    assert merged == StorageSettings(
        retries=StorageRetriesSettings(9, 4, 5),
        storage_class="A",
        unsafe_use_metadata=False,
        timeouts=StorageTimeoutSettings(1),
    )


def test_merged_settings_do_not_follow_what_they_were_merged_from() -> None:
    below, above = StorageSettings(retries=StorageRetriesSettings(3)), StorageSettings()
    merged = merge_settings(below, above)

    assert below.retries is not None
    below.retries.max_tries = 99

    assert merged.retries == StorageRetriesSettings(3)
