"""`mercer info` without a file, and an engine that is not there: what there is to compute with."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from markets.commands import good, refused, results
from mercer.engine import native
from mercer.engine.torch import place
from mercer.engine.torch.place import NO_TORCH

GB = 10**9


def torch_with(*capabilities, cuda="13.0", hip=None, metal=False):
    """A torch with a GPU of each compute capability."""

    def init():
        if not capabilities:
            msg = (
                "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU …"
            )
            raise RuntimeError(msg)

    mps = SimpleNamespace(is_built=lambda: metal, is_available=lambda: metal)
    return SimpleNamespace(
        __version__="2.9.0",
        version=SimpleNamespace(cuda=cuda, hip=hip),
        backends=SimpleNamespace(mps=mps),
        mps=SimpleNamespace(
            recommended_max_memory=lambda: 20 * GB, driver_allocated_memory=lambda: GB
        ),
        cuda=SimpleNamespace(
            init=init,
            device_count=lambda: len(capabilities),
            get_device_properties=lambda i: SimpleNamespace(name=f"NVIDIA H{i}00"),
            get_device_capability=lambda i: capabilities[i],
            mem_get_info=lambda _: (139 * GB, 141 * GB),
            memory_reserved=lambda _: 2 * GB,
            memory_allocated=lambda _: GB,
        ),
    )


def test_the_machine_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    told, found = good("info").stdout, results("info")
    assert told.splitlines()[-1] == f"devices     none: {NO_TORCH}"
    assert (found["devices"], found["no_device"]) == ([], NO_TORCH)
    assert found["threads"] >= 1
    assert found["free_bytes"] > 0
    compiled = native.compiled()
    assert found["compiled_tiles"] == (None if compiled is None else compiled.isa)


@pytest.mark.parametrize("triton", [True, False])
def test_devices_are_named_as_an_engine_takes_them(triton, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch_with((9, 0), (7, 5)))
    monkeypatch.setattr("mercer.engine.torch.place.find_spec", lambda _: triton or None)
    first, second = good("info").stdout.splitlines()[-2:]
    able = "half floats" if triton else "no half floats (Triton is not installed)"
    held = "141 GB, 140 GB free"
    assert first == f"devices     cuda:0, NVIDIA H000, {held}, compute capability 9.0, {able}"
    assert second.strip().startswith("cuda:1, NVIDIA H100, 141 GB")
    assert second.endswith("(they need compute capability 8.0)" if triton else "8.0)")
    found = results("info")
    assert [each["half_floats"] for each in found["devices"]] == [triton, False]
    assert [each["capability"] for each in found["devices"]] == ["9.0", "7.5"]
    assert found["no_device"] is None


NONE = {
    "not built": (torch_with(cuda=None), "torch 2.9.0 is a build without CUDA"),
    "no driver": (torch_with(), "found no NVIDIA driver on your system"),
    "broken": (SimpleNamespace(), "torch can't be used: "),
}


@pytest.mark.parametrize("name", sorted(NONE))
def test_why_there_is_none(name, monkeypatch):
    torch, words = NONE[name]
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert words in good("info").stdout.splitlines()[-1]
    assert words in results("info")["no_device"]


def test_others_have_no_half_floats(monkeypatch):
    amd = torch_with((9, 4), cuda=None, hip="6.2")
    monkeypatch.setitem(sys.modules, "torch", amd)
    assert "NVIDIA's tensor cores" in str(place.devices()[0][0])
    monkeypatch.setitem(sys.modules, "torch", torch_with(cuda=None, metal=True))
    (metal,), why = place.devices()
    assert (metal.name, metal.free_bytes, why) == ("mps", 19 * GB, None)


def test_a_file_that_is_described_asks_for_no_device():
    """Nor does the help: both are quick where torch is installed."""
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom mercer.cli.main import main\n"
        "CliRunner().invoke(main, ['info', 'nowhere.mercer'])\n"
        "CliRunner().invoke(main, ['info', '--help'])\n"
        "assert not {name for name in sys.modules if name.startswith('mercer.engine.torch.place')}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_engine_that_is_not_there_is_told_before_rows_are_read(monkeypatch):
    assert "Did you mean 'numpy'?" in refused("fit", "no.csv", "--engine", "nunpy", code=2)
    monkeypatch.setitem(sys.modules, "torch", torch_with())
    assert "no NVIDIA driver" in refused("fit", "no.csv", "--engine", "cuda", code=2)
