"""Configuration, metadata, status and feature flags of a V2 repository."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from frazil.errors import FormatError, InvalidInputError, ReadOnlyError, SessionStateError
from frazil.format import repo_info as model
from frazil.format.header import Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID as FIRST
from frazil.format.metadata import Value
from frazil.format.repo_info import Availability, RepoStatus
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import MAIN
from frazil.protocols.repo_changes import (
    CREATE_TAG,
    DELETE_TAG,
    MOVE_NODE,
    Change,
    feature_flag_named,
    find_setting,
    is_enabled,
)
from frazil.protocols.v2_protocol import V2Protocol, create_v2
from frazil.storage.interface import Storage
from tests.protocol_repositories import (
    EAGER,
    commit,
    create_repository,
    open_repository,
    write_snapshot,
)

READ_ONLY = RepoStatus(Availability.READ_ONLY, 1_700_000_000_000_001_000, "moving house")


@pytest.fixture
def repository(storage: Storage) -> V2Protocol:
    return create_repository(storage)


def latest(repository: V2Protocol) -> model.UpdateType:
    return next(repository.ops_log()).kind


# Configuration


def test_a_new_repository_has_the_configuration_it_was_given(storage: Storage) -> None:
    config = {"inline_chunk_threshold_bytes": 12, "manifest": {"preload": None}}

    create_v2(Assets(storage, Dialect.V2), config, EAGER)

    assert open_repository(storage).read_config() == config


def test_without_a_saved_configuration_there_is_none(repository: V2Protocol) -> None:
    assert repository.read_config() is None


def test_of_two_who_save_a_configuration_the_later_one_wins(
    storage: Storage, repository: V2Protocol
) -> None:
    other = open_repository(storage)
    for each in (repository, other):
        each.read_config()

    repository.write_config({"max_concurrent_requests": 1})
    other.write_config({"max_concurrent_requests": 2})

    assert repository.read_config() == {"max_concurrent_requests": 2}
    assert latest(repository) == model.ConfigChanged()


def test_the_configuration_that_was_read_may_be_changed(repository: V2Protocol) -> None:
    repository.write_config({"caching": {"num_chunk_refs": 1}})
    config = repository.read_config()
    assert config is not None

    config["caching"]["num_chunk_refs"] = 2

    assert repository.read_config() == {"caching": {"num_chunk_refs": 1}}


def test_a_configuration_that_is_no_map_is_damage(repository: V2Protocol) -> None:
    repository.update(
        lambda info: Change(replace(info, config=Value([1, 2])), model.ConfigChanged())
    )

    with pytest.raises(FormatError) as refusal:
        repository.read_config()

    assert refusal.value.kind == "config-deserialization"


# Metadata


def test_metadata_is_a_function_of_the_metadata_before(
    storage: Storage, repository: V2Protocol
) -> None:
    repository.update_metadata(lambda _: {"a": 1, "b": [None]})

    changed = repository.update_metadata(lambda former: {**former, "a": "zwei"})

    assert changed == {"a": "zwei", "b": [None]}
    assert open_repository(storage).read_repo_info().metadata == changed
    assert latest(repository) == model.MetadataChanged()


def test_metadata_that_is_no_json_is_refused(repository: V2Protocol) -> None:
    with pytest.raises(InvalidInputError):
        repository.update_metadata(lambda _: {"a": object()})

    assert dict(repository.read_repo_info().metadata) == {}


# Status


WRITES: dict[str, Callable[[V2Protocol], object]] = {
    "create_branch": lambda r: r.create_branch(MAIN, FIRST),
    "delete_branch": lambda r: r.delete_branch("nowhere"),
    "reset_branch": lambda r: r.reset_branch(MAIN, FIRST),
    "create_tag": lambda r: r.create_tag("v1", FIRST),
    "delete_tag": lambda r: r.delete_tag("v1"),
    "commit": lambda r: commit(r),
    "amend": lambda r: r.amend(MAIN, write_snapshot(r, FIRST), FIRST),
    "register": lambda r: r.register(write_snapshot(r, FIRST), FIRST),
    "write_config": lambda r: r.write_config({}),
    "update_metadata": lambda r: r.update_metadata(dict),
    "set_feature_flag": lambda r: r.set_feature_flag(MOVE_NODE.id, False),
    "refuse_unless_writable": lambda r: r.refuse_unless_writable(),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_read_only_repository_refuses_every_write(repository: V2Protocol, write: str) -> None:
    repository.set_status(READ_ONLY)

    with pytest.raises(ReadOnlyError, match=r"2023-11-14T.*moving house") as refusal:
        WRITES[write](repository)

    assert refusal.value.kind == "read-only-repository"
    assert latest(repository) == model.RepoStatusChanged(READ_ONLY)


def test_that_main_can_not_be_deleted_is_said_of_a_read_only_repository_too(
    repository: V2Protocol,
) -> None:
    repository.set_status(READ_ONLY)

    with pytest.raises(SessionStateError):
        repository.delete_branch(MAIN)


def test_a_read_only_repository_comes_online_again(
    storage: Storage, repository: V2Protocol
) -> None:
    repository.set_status(READ_ONLY)

    open_repository(storage).set_status(RepoStatus(set_at=READ_ONLY.set_at))

    repository.refuse_unless_writable()
    commit(repository)


# Feature flags


def flags(repository: V2Protocol) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    info = repository.read_repo_info()
    return info.enabled_feature_flags, info.disabled_feature_flags


def test_a_flag_is_in_the_list_of_its_setting(repository: V2Protocol) -> None:
    assert flags(repository) == (None, None)

    repository.set_feature_flag(CREATE_TAG.id, None)
    assert flags(repository) == (None, None)
    repository.set_feature_flag(DELETE_TAG.id, True)
    repository.set_feature_flag(CREATE_TAG.id, True)
    assert flags(repository) == ((4, 5), None)
    repository.set_feature_flag(CREATE_TAG.id, False)
    assert flags(repository) == ((5,), (4,))
    repository.set_feature_flag(CREATE_TAG.id, None)
    assert flags(repository) == ((5,), ())
    assert latest(repository) == model.FeatureFlagChanged(CREATE_TAG.id, None)


def test_a_feature_is_there_unless_it_is_switched_off(repository: V2Protocol) -> None:
    settings = {True: True, None: True, False: False}

    for setting, enabled in settings.items():
        repository.set_feature_flag(MOVE_NODE.id, setting)
        info = repository.read_repo_info()
        assert find_setting(info, MOVE_NODE) is setting
        assert is_enabled(info, MOVE_NODE) is enabled


def test_a_flag_has_a_name() -> None:
    assert feature_flag_named("delete_tag") is DELETE_TAG
    with pytest.raises(InvalidInputError, match="move_node") as refusal:
        feature_flag_named("fly")
    assert refusal.value.kind == "invalid-feature-flag"
