"""A process and its detector, for tests of `mercer monitor`."""

import pytest

from markets.commands import good


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """A folder with a normal and a faulty run, and a detector of the former."""
    folder = tmp_path_factory.mktemp("plant")
    normal, faulty = folder / "normal.csv", folder / "faulty.csv"
    good("demo", "--process", normal, faulty)
    good("fit", normal, "--id", "time", "--model", "detector", "-o", folder / "d.mercer")
    return folder


@pytest.fixture(scope="module")
def lines(plant):
    """The lines of the faulty run."""
    return (plant / "faulty.csv").read_text().splitlines(keepends=True)
