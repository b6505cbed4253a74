"""What checks find."""

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.rendering.tables import render_table

_SHOWN_FINDINGS = 50
_HEADINGS = ("check", "variable", "region", "file", "what it is")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be, and where."""

    message: str
    check: str = ""
    """The name of the check; that of the function, unless it says otherwise."""
    variable: str | None = None
    files: tuple[str, ...] = ()
    """The source files without which it would not be so; none where no file is to blame."""
    region: tuple[int, int] | None = None
    """From where to where along the dimension that files follow each other along."""


def render_findings(findings: Sequence[Finding]) -> str:
    """Findings as a table, of the first ones if there are many."""
    lines = render_table(_HEADINGS, [_cells(each) for each in findings[:_SHOWN_FINDINGS]])
    more = len(findings) - _SHOWN_FINDINGS
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def _cells(finding: Finding) -> tuple[str, ...]:
    region = "" if finding.region is None else "[{}:{}]".format(*finding.region)
    files = finding.files[0] if finding.files else ""
    if len(finding.files) > 1:
        files += f" and {len(finding.files) - 1} more"
    return finding.check, finding.variable or "", region, files, finding.message
