"""The state of a repository as a whole: configuration, metadata, availability, features."""

from typing import Any

from frazil.asynchronous import asynchronous
from frazil.config import FeatureFlag, RepositoryConfig
from frazil.config.tree import encode_config
from frazil.format.dialect import Dialect
from frazil.protocols import feature_flags as flags
from frazil.protocols.reserved_metadata import keep_reserved
from frazil.repository.base import RepositoryPart
from frazil.states import RepoStatus, public_status, stored_status


class Condition(RepositoryPart):
    """What holds for the repository as a whole."""

    @property
    def config(self) -> RepositoryConfig:
        """The configuration that it was opened with."""
        return self._surroundings.config

    def save_config(self) -> None:
        """Save the configuration with the repository, for all who open it from now on."""
        self._protocol.write_config(encode_config(self._surroundings.config))

    save_config_async = asynchronous(save_config)

    def get_metadata(self) -> dict[str, Any]:
        """What users keep about the repository."""
        return dict(self._protocol.read_repo_info().metadata)

    get_metadata_async = asynchronous(get_metadata)

    @property
    def metadata(self) -> dict[str, Any]:
        """What users keep about the repository."""
        return self.get_metadata()

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace what users keep about the repository; what Frazil keeps there stays."""
        self._protocol.update_metadata(lambda before: keep_reserved(before, metadata))

    set_metadata_async = asynchronous(set_metadata)

    def update_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Add to what users keep about the repository, in place of what has the same name."""
        return dict(self._protocol.update_metadata(lambda before: {**before, **metadata}))

    update_metadata_async = asynchronous(update_metadata)

    def get_status(self) -> RepoStatus:
        """Whether the repository can be written to, since when, and why."""
        return public_status(self._protocol.read_repo_info().status)

    get_status_async = asynchronous(get_status)

    @property
    def status(self) -> RepoStatus:
        """Whether the repository can be written to, since when, and why."""
        return self.get_status()

    def set_status(self, status: RepoStatus) -> None:
        """Let the repository be written to, or not."""
        self._protocol.set_status(stored_status(status))

    set_status_async = asynchronous(set_status)

    def feature_flags(self) -> list[FeatureFlag]:
        """What can be switched on and off."""
        info = self._protocol.read_repo_info()
        return [
            FeatureFlag(flag.id, flag.name, flag.default_enabled, flags.find_setting(info, flag))
            for flag in flags.FEATURE_FLAGS
        ]

    feature_flags_async = asynchronous(feature_flags)

    def enabled_feature_flags(self) -> list[FeatureFlag]:
        """Those that are on."""
        return [flag for flag in self.feature_flags() if flag.enabled]

    enabled_feature_flags_async = asynchronous(enabled_feature_flags)

    def disabled_feature_flags(self) -> list[FeatureFlag]:
        """Those that are off."""
        return [flag for flag in self.feature_flags() if not flag.enabled]

    disabled_feature_flags_async = asynchronous(disabled_feature_flags)

    def set_feature_flag(self, name: str, setting: bool | None) -> None:
        """Switch a feature on or off, or with None let the default hold."""
        if self._protocol.dialect is not Dialect.V2:
            raise self._protocol.unsupported("feature flags")
        self._protocol.set_feature_flag(flags.feature_flag_named(name).id, setting)

    set_feature_flag_async = asynchronous(set_feature_flag)
