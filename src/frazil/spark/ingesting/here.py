"""The two steps of an ingest in this process, for a few files: the functions that workers call."""

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.spark.arrays.runner import Runner
from frazil.spark.ingesting.cutting import Cutter, write
from frazil.spark.ingesting.parsing import Outcome, Reading, parse
from frazil.spark.ingesting.placing import PlacedCell, Placement
from frazil.virtual import Source


@dataclass(frozen=True, slots=True, eq=False)
class SourcesHere:
    """Sources that were opened, with their references."""

    outcomes: tuple[Outcome, ...]
    runner: Runner
    sources: tuple[Source, ...]

    def write_cells(self, placement: Placement, assets: Assets) -> list[PlacedCell]:
        """Bring references together by cell, and write a manifest of each."""
        cutter = Cutter(placement, assets)
        for each in self.sources:
            cutter.add(each.header.name, each.version, each.references)
        parts = dict(cutter.cut())

        def write_one(cell: int) -> PlacedCell:
            return write(assets, placement.cells[cell], [parts[cell]])

        return self.runner.run("writing references", write_one, sorted(parts))


def parse_here(runner: Runner, reading: Reading, locations: Sequence[str]) -> SourcesHere:
    """Open files, one after the other."""
    opened = runner.run("opening files", lambda location: parse(location, reading), locations)
    outcomes, sources = zip(*opened, strict=True)
    return SourcesHere(outcomes, runner, tuple(each for each in sources if each is not None))
