"""What the library says of itself."""

import pytest

import frazil
from frazil.maintenance.doctor import print_debug_info, user_agent
from frazil.ops import SpecVersion, spec_version, supported_spec_versions


def test_it_knows_every_generation_and_writes_the_newest() -> None:
    assert supported_spec_versions()[:2] == [SpecVersion.v2, SpecVersion.v1]
    assert set(supported_spec_versions()) == set(SpecVersion)
    assert spec_version() is SpecVersion.v2


def test_it_calls_itself_by_its_name_and_version() -> None:
    assert user_agent() == f"frazil-{frazil.__version__}"


def test_a_report_names_the_versions(capsys: pytest.CaptureFixture[str]) -> None:
    print_debug_info()

    shown = capsys.readouterr().out
    assert f"frazil:  {frazil.__version__}\n" in shown
    assert "\nzarr:  " in shown
