"""Configurations that one library saves and the other reads; the same expression makes both."""

from pathlib import Path

import pytest

from frazil.config import RepositoryConfig
from frazil.config.saved_config import decode_config, encode_config
from frazil.config.settings import merge_configs
from frazil.format.files import decode_repo_info
from frazil.format.header import Dialect
from frazil.format.metadata import JsonValue
from frazil.format.text_files import decode_config_yaml
from tests.configs import full_config
from tests.interop.building import DIALECTS, FIRST_SNAPSHOT, Contents, RepositoryFiles
from tests.interop.official_library import OfficialLibrary


def empty_config() -> RepositoryConfig:
    """One that sets nothing."""
    return RepositoryConfig()


CONFIGS = pytest.mark.parametrize("config", [full_config(), empty_config()], ids=["full", "empty"])
GENERATIONS = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: f"v{each.value}")


@GENERATIONS
@CONFIGS
def test_the_official_library_reads_what_we_save(
    official: OfficialLibrary, tmp_path: Path, dialect: Dialect, config: RepositoryConfig
) -> None:
    contents = Contents([FIRST_SNAPSHOT], {"main": FIRST_SNAPSHOT.id}, config=encode_config(config))
    RepositoryFiles(tmp_path, dialect).write(contents)

    found, meant = official.call("compare_config", path=str(tmp_path), expression=repr(config))

    assert found == meant


@GENERATIONS
@CONFIGS
def test_we_read_what_the_official_library_saves(
    official: OfficialLibrary, tmp_path: Path, dialect: Dialect, config: RepositoryConfig
) -> None:
    version = 1 if dialect is Dialect.V1 else 2
    expression = repr(config)
    official.call("write_config", path=str(tmp_path), spec_version=version, expression=expression)

    tree = read_tree(tmp_path, dialect)

    # The official library saves what it thinks of the disk along with what it is told.
    disk = RepositoryConfig(storage=decode_config(tree).storage)
    assert decode_config(tree) == merge_configs(disk, config)
    assert encode_config(decode_config(tree)) == tree


def read_tree(path: Path, dialect: Dialect) -> JsonValue:
    """The saved configuration of a repository."""
    if dialect is Dialect.V1:
        return decode_config_yaml((path / "config.yaml").read_bytes())
    config = decode_repo_info((path / "repo").read_bytes()).value.config
    assert config is not None
    return config.get()
