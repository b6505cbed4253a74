"""What a V2 repository can be told not to do."""

from dataclasses import dataclass

from frazil.errors import InvalidInputError, SessionStateError
from frazil.format.repo_info import RepoInfo


@dataclass(frozen=True, slots=True)
class FeatureFlag:
    """A feature, and whether it is there when nobody has said anything."""

    id: int
    name: str
    default_enabled: bool = True


MOVE_NODE = FeatureFlag(3, "move_node")
CREATE_TAG = FeatureFlag(4, "create_tag")
DELETE_TAG = FeatureFlag(5, "delete_tag")

FEATURE_FLAGS = (MOVE_NODE, CREATE_TAG, DELETE_TAG)
"""All that the specification knows; the ids 1 and 2 are reserved."""


def feature_flag_named(name: str) -> FeatureFlag:
    """A flag by its name; raises InvalidInputError."""
    for flag in FEATURE_FLAGS:
        if flag.name == name:
            return flag
    known = ", ".join(flag.name for flag in FEATURE_FLAGS)
    raise InvalidInputError(
        f"{name!r} is no feature flag; there are {known}", kind="invalid-feature-flag"
    )


def find_setting(info: RepoInfo, flag: FeatureFlag) -> bool | None:
    """What a repository says of a flag, if anything."""
    if flag.id in (info.disabled_feature_flags or ()):
        return False
    return True if flag.id in (info.enabled_feature_flags or ()) else None


def is_enabled(info: RepoInfo, flag: FeatureFlag) -> bool:
    """Whether a repository has a feature."""
    setting = find_setting(info, flag)
    return flag.default_enabled if setting is None else setting


def refuse_unless_enabled(info: RepoInfo, flag: FeatureFlag) -> None:
    """Raise SessionStateError for a feature that is switched off."""
    if not is_enabled(info, flag):
        raise SessionStateError(
            f"this repository has the feature {flag.name} switched off",
            kind="feature-flag-disabled",
        )
