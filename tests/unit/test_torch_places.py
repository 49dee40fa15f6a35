"""Names of devices, what is said where one is missing, and arithmetic of memory: without torch."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from mercer import KernelPCA
from mercer._core.errors import InputError, MemoryBudgetError, MercerError
from mercer.engine.resolve import DEVICES, resolve_engine
from mercer.engine.torch.place import (
    BESIDE,
    LEAST,
    TILE_SHARE,
    Place,
    device_of,
    devices_of,
    kept_tiles,
    out_of_memory,
    reason_of,
    tile_width,
)
from mercer.kernels import RBF

OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by "
    "downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
)
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver "
    "from http://www.nvidia.com/Download/index.aspx"
)


def fails(text):
    def init():
        raise RuntimeError(text)

    return init


def torch_with(*, cuda="13.0", init=lambda: None, count=0, metal=False, runs=False):
    """A torch of which only what is asked about devices is there."""
    return SimpleNamespace(
        __version__="2.9.0",
        version=SimpleNamespace(cuda=cuda, hip=None),
        cuda=SimpleNamespace(init=init, device_count=lambda: count),
        backends=SimpleNamespace(
            mps=SimpleNamespace(is_built=lambda: metal, is_available=lambda: runs)
        ),
    )


# ── names ───────────────────────────────────────────────────────────────────
NAMES = {
    "cuda": ("cuda", 0),
    " CUDA:3 ": ("cuda", 3),
    "torch:cuda:1": ("cuda", 1),
    "mps": ("mps", 0),
    "torch:cpu": ("cpu", 0),
}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_names_of_devices(name):
    assert device_of(name) == NAMES[name]


@pytest.mark.parametrize(
    "name", ["cuda:0,cuda:1", " CUDA:0 , cuda:1 ", "cuda:all", "torch:cuda:ALL"]
)
def test_names_of_several(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch_with(count=2))
    assert [device_of(each) for each in devices_of(name)] == [("cuda", 0), ("cuda", 1)]
    assert resolve_engine(name).name == "cuda:0,cuda:1"


def test_all_of_one_is_one_and_all_of_none_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch_with(count=1))
    assert resolve_engine("cuda:all").place.name == "cuda:0"
    with pytest.raises(InputError, match=r"engine='cuda:1' has no device: .* only cuda:0 is there"):
        resolve_engine("cuda:0,cuda:1")
    monkeypatch.setitem(sys.modules, "torch", torch_with())
    with pytest.raises(InputError, match="engine='cuda:0' has no device"):
        resolve_engine("cuda:all")


def test_several_are_of_one_kind():
    with pytest.raises(InputError, match="must name devices of one kind; got cpu and cuda"):
        devices_of("cuda:0,torch:cpu")


BAD = ["torch", "cuda:", "cuda:x", "cuda:-1", "cuda1", "torch:tpu", "cuda:0,", "cuda:0,cuda:all"]


@pytest.mark.parametrize("name", BAD)
def test_a_name_of_no_device_is_refused_with_those_that_are(name):
    for read in (device_of, devices_of, resolve_engine):
        with pytest.raises(InputError, match=r"'cuda'.*'torch:cpu'"):
            read(name)


def test_the_plan_shows_the_device_by_its_number():
    assert [Place(*device_of(each)).name for each in DEVICES] == ["cuda:0", "mps", "torch:cpu"]


# ── devices that are not there ──────────────────────────────────────────────
MISSING = {
    "not built": (torch_with(cuda=None), "cuda", r"torch 2\.9\.0 is a build without CUDA"),
    "old driver": (
        torch_with(init=fails(OLD_DRIVER)),
        "cuda",
        r"too old \(found version 11040\)\.",
    ),
    "no driver": (
        torch_with(init=fails(NO_DRIVER)),
        "cuda",
        "found no NVIDIA driver on your system",
    ),
    "none": (torch_with(), "cuda", "none is there"),
    "one": (torch_with(count=1), "cuda:1", "only cuda:0 is there"),
    "two": (torch_with(count=2), "cuda:2", "2 are there"),
    "no metal": (torch_with(), "mps", "built without Metal"),
    "no mac": (torch_with(metal=True), "mps", "Metal has one device"),
    "second": (torch_with(metal=True, runs=True), "mps:1", "Metal has one device"),
}


@pytest.mark.parametrize("name", sorted(MISSING))
def test_a_device_that_is_missing_is_told_in_one_sentence(name, monkeypatch):
    torch, engine, words = MISSING[name]
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(InputError, match=f"engine='{engine}' has no device: .*{words}") as caught:
        resolve_engine(engine)
    said = str(caught.value)
    assert said.endswith("engine='auto' computes on the processor.")
    assert "Please" not in said
    model = KernelPCA(2, kernel=RBF(0.3), engine=engine)
    with pytest.raises(InputError, match="has no device"):
        model.fit(np.eye(5))
    assert not hasattr(model, "fit_")


def test_a_device_that_is_there_is_taken(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch_with(count=2, metal=True, runs=True))
    for name in ("cuda:1", "mps", "torch:cpu"):
        assert resolve_engine(name).place.name == name


@pytest.mark.parametrize("name", DEVICES)
def test_without_torch_the_command_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(
        MercerError, match=r'needs torch, which is not installed.*pip install "mercer\[gpu\]"'
    ):
        resolve_engine(name)


def test_auto_takes_no_device(monkeypatch):
    """Not before forecasts of a fit say that it pays."""
    monkeypatch.setitem(sys.modules, "torch", torch_with(count=1))
    assert resolve_engine("auto").facts().name in ("native", "numpy")


def test_reasons_are_short():
    assert reason_of(RuntimeError("")) == "RuntimeError"
    assert len(reason_of(RuntimeError("x" * 1000))) < 200


# ── memory ──────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("free", [10**8, 10**9, 141 * 10**9])
def test_tiles_take_their_share_of_the_memory(free, depth, itemsize):
    width = tile_width(free, itemsize, depth=depth, widest=8192)
    assert LEAST <= width <= 8192
    assert (depth + BESIDE) * itemsize * width**2 <= free / TILE_SHARE
    assert width == 8192 or (depth + BESIDE) * itemsize * (width + 1) ** 2 > free / TILE_SHARE


def test_a_tile_has_a_least_width():
    assert tile_width(0, 8, depth=1, widest=8192) == LEAST


@pytest.mark.parametrize("free", [0, 5 * 10**8, 10**12])
@pytest.mark.parametrize("asked", [0, 10**8, 10**12])
def test_kept_tiles_stay_within_what_is_asked_and_what_is_free(asked, free):
    found = kept_tiles(1000, 10**6, asked_bytes=asked, free_bytes=free)
    assert 0 <= found <= 1000
    assert found * 10**6 <= min(asked, free / 2)


def test_what_is_out_of_memory():
    class OutOfMemoryError(RuntimeError):  # torch's, wherever it lives
        pass

    assert out_of_memory(OutOfMemoryError())
    assert out_of_memory(RuntimeError("DefaultCPUAllocator: not enough memory: you tried …"))
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert issubclass(MemoryBudgetError, MemoryError)
