"""Where Frazil means to differ from the official library 2.3.0, and why.

A deviation says which pair of outcomes of one step it allows. A program ends where one library changed
something and the other did not.

Some steps are never taken, because what they change shows only later. The official library

- accepts chunks of any number of axes, and gives another part of metadata than a suffix asks for;
- has a place for the first chunk of an axis that has none, and loses that chunk when it commits;
- keeps paths as they come, with doubled slashes and dots, and leaves nodes below an array alone when
  that is deleted;
- deletes nothing below a prefix that is no node, such as `x/c` or a root without metadata, where Zarr
  expects that nothing is left;
- leaves nodes that others made below the root hanging, where a solver lets a rebased session delete
  the root;
- moves deleted chunks in `reindex_array` and `shift_array`, which shows in the log only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.interop.machine.outcomes import Outcome, agree
from tests.interop.machine.steps import Merge, OnRepository, OnSession, OnStore, Open, Step

_OVERLOOKED = (
    "New node in invalid group",
    "Delete of updated group",
    "Move operation cannot be rebased",
)


@dataclass(frozen=True, slots=True)
class Deviation:
    """A difference that is meant."""

    reason: str
    allows: Callable[[Step, Outcome, Outcome], bool]
    leaves_the_same: bool = True
    """Whether a program can go on, because neither library changed anything."""


def find_deviation(step: Step, official: Outcome, frazil: Outcome) -> Deviation | None:
    """Why a difference is meant, if it is."""
    return next((each for each in DEVIATIONS if each.allows(step, official, frazil)), None)


def _is_listing_of_no_node(step: Step, official: Outcome, frazil: Outcome) -> bool:
    if _calls(step, "list_prefix", "getsize_prefix"):
        return _is_error(official, "bad-key-prefix") and frazil[0] == "value"
    if _calls(step, "list_dir"):
        return official[:2] == ["value", []] and frazil[:2] != ["value", []]
    return _calls(step, "is_empty") and (official[:2], frazil[:2]) == (
        ["value", True],
        ["value", False],
    )


def _is_empty_suffix(step: Step, official: Outcome, frazil: Outcome) -> bool:
    return _calls(step, "get") and official[0] == "error" and frazil[:2] == ["value", b""]


def _is_deleting_nothing(step: Step, official: Outcome, frazil: Outcome) -> bool:
    is_refused = _is_error(frazil, "read-only-session")
    return _calls(step, "delete", "clear") and official[0] == "value" and is_refused


def _is_range_of_nothing(step: Step, official: Outcome, _: Outcome) -> bool:
    is_range = _calls(step, "get_partial_values")
    return is_range and official[0] == "error" and official[1][0] == "TypeError"


def _is_half_of_bulk(step: Step, official: Outcome, frazil: Outcome) -> bool:
    is_bulk = _calls(step, "set_virtual_refs", "set_virtual_refs_arr")
    refusals = ("invalid-chunk-index", "zero-length-chunk")
    return is_bulk and frazil[0] == "error" and any(_is_error(official, each) for each in refusals)


def _is_bulk_of_bad_locations(step: Step, official: Outcome, frazil: Outcome) -> bool:
    is_bulk = _calls(step, "set_virtual_refs", "set_virtual_refs_arr")
    return is_bulk and _is_error(official, "invalid-virtual-ref") and frazil[0] == "error"


def _lists_edits_twice(step: Step, official: Outcome, frazil: Outcome) -> bool:
    is_listing = isinstance(step, OnSession) and step.method == "chunk_coordinates"
    return (
        is_listing
        and official[0] == frazil[0] == "value"
        and official[2]["has_uncommitted_changes"]
    )


def _is_garbage_of_refused_chunks(step: Step, official: Outcome, frazil: Outcome) -> bool:
    if not isinstance(step, OnRepository) or step.method != "garbage_collect":
        return False
    if official[0] != "value" or frazil[0] != "value":
        return False
    more = official[1]["chunks_deleted"] - frazil[1]["chunks_deleted"]
    others = {**official[1], "chunks_deleted": 0}, {**frazil[1], "chunks_deleted": 0}
    return more > 0 and others[0] == others[1]


def _is_move_to_the_root(step: Step, official: Outcome, frazil: Outcome) -> bool:
    is_move = isinstance(step, OnSession) and step.method == "move"
    is_refused = _is_error(frazil, "move-destination-parent-missing")
    return is_move and official[0] == "value" and is_refused


def _has_no_code(_: Step, official: Outcome, frazil: Outcome) -> bool:
    is_nameless = _is_error(official, "unknown") and official[1][0] == "IcechunkError"
    return is_nameless and frazil[0] == "error"


def _is_other_word_for_branch(step: Step, official: Outcome, frazil: Outcome) -> bool:
    is_session = isinstance(step, Open) and "as_of" in step.arguments
    return (
        is_session
        and _is_error(official, "branch-not-found")
        and _is_error(frazil, "ref-not-found")
    )


def _is_edit_of_a_rearranger(step: Step, official: Outcome, frazil: Outcome) -> bool:
    is_refused = _is_error(frazil, "rearrange-session-only")
    return isinstance(step, OnStore) and official[0] == "error" and is_refused


def _overlooks_a_conflict(step: Step, official: Outcome, frazil: Outcome) -> bool:
    is_rebase = isinstance(step, OnSession) and step.method in ("commit", "rebase")
    if not is_rebase or not _is_error(frazil, "rebase-failed") or agree(official, frazil):
        return False
    found = official[3]["conflicts"] if _is_error(official, "rebase-failed") else []
    more = [each for each in frazil[3]["conflicts"] if each not in found]
    return all(each["conflict_type"] in _OVERLOOKED for each in more)


def _is_merging_what_has_ended(step: Step, official: Outcome, frazil: Outcome) -> bool:
    is_refused = _is_error(frazil, "merge-not-allowed")
    return isinstance(step, Merge) and official[0] == "value" and is_refused


def _calls(step: Step, *methods: str) -> bool:
    return isinstance(step, OnStore) and step.method in methods


def _is_error(outcome: Outcome, kind: str) -> bool:
    return outcome[0] == "error" and bool(outcome[2] == kind)


DEVIATIONS = (
    Deviation(
        "The official library fails when it is asked for the last no bytes of a native chunk.",
        _is_empty_suffix,
    ),
    Deviation(
        "The official library refuses to list below a prefix that is no node, such as `x/c`. Zarr asks"
        " for such prefixes and expects the keys below them. So do `list_dir` and `is_empty`.",
        _is_listing_of_no_node,
    ),
    Deviation(
        "In a read-only session the official library lets keys be deleted that are not there. Zarr"
        " wants read-only stores to refuse all of it.",
        _is_deleting_nothing,
    ),
    Deviation(
        "The official library keeps those of many virtual references that come before one that it"
        " refuses. Frazil sets all or none.",
        _is_half_of_bulk,
        leaves_the_same=False,
    ),
    Deviation(
        "The official library looks at the locations of many virtual references before it finds that"
        " the session is read-only, or the array missing. Both refuse.",
        _is_bulk_of_bad_locations,
    ),
    Deviation(
        "The official library lists chunks of changed arrays twice, and deleted ones still.",
        _lists_edits_twice,
    ),
    Deviation(
        "Some refusals of the official library are `IcechunkError` with the code `unknown`: inspecting"
        " what is no id, shifting rectilinear arrays. Frazil says what is the matter.",
        _has_no_code,
    ),
    Deviation(
        "A fork of the official library takes the changes of a session that has ended, which has none.",
        _is_merging_what_has_ended,
    ),
    Deviation(
        "The official library has two codes for a branch that there is not, the second one for sessions"
        " as of some time.",
        _is_other_word_for_branch,
    ),
    Deviation(
        "The official library writes a chunk before it finds that there is no place for it.",
        _is_garbage_of_refused_chunks,
    ),
    Deviation(
        "The official library moves a node to the root where there is none, and paths below it then"
        " start with two slashes.",
        _is_move_to_the_root,
        leaves_the_same=False,
    ),
    Deviation(
        "The official library overlooks three conflicts, and loses nodes or leaves some without a"
        " group: theirs in a group that we delete, ours in one that they delete, and our moves.",
        _overlooks_a_conflict,
        leaves_the_same=False,
    ),
    Deviation(
        "A rearrange session refuses edits, in the official library after it has looked at them.",
        _is_edit_of_a_rearranger,
    ),
    Deviation(
        "The official library can't say that there is no chunk where many are asked for.",
        _is_range_of_nothing,
    ),
)
