"""The edits of the conflict table: of an array, of a group, and of the group that both are in."""

from tests.interop.rebase_scenarios import Step

EDITS: dict[str, list[Step]] = {
    "create array `g/n`": [["create_array", "g/n"]],
    "create group `g/n`": [["create_group", "g/n"]],
    "create array `g/n/x` and its parent group": [["create_array", "g/n/x"]],
    "delete array `g/a`": [["delete", "g/a"]],
    "delete group `g/sub`": [["delete", "g/sub"]],
    "delete parent group `g`": [["delete", "g"]],
    "update metadata of array `g/a`": [["describe_array", "g/a", "said"]],
    "update metadata of group `g/sub`": [["describe_group", "g/sub", "said"]],
    "update metadata of parent group `g`": [["describe_group", "g", "said"]],
    "set chunk of array `g/a`": [["write", "g/a", 0, 1, 7]],
    "delete chunk of array `g/a`": [["delete_chunk", "g/a", 0]],
    "resize array `g/a`": [["resize", "g/a", 4]],
    "move array `g/a`": [["move", "/g/a", "/h/moved"]],
    "move group `g/sub`": [["move", "/g/sub", "/h/moved"]],
    "move parent group `g`": [["move", "/g", "/h/moved"]],
}
