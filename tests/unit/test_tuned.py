"""Blocks that are tuned: which passes are alike, what is tried, which wins, what is written."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from mercer.engine.native.engine import program_of
from mercer.engine.torch import tuned
from mercer.engine.torch.source import source
from mercer.engine.torch.tuned import Blocks, Choices, PassClass
from mercer.kernels import RBF, Matern

USUAL = Blocks(BN=64)
OWN = PassClass(
    "a GPU (8.6)",
    "torch 2.11.0, triton 3.6.0",
    source(program_of(RBF(0.3)), precise=True),
    d=768,
    columns=32,
    precise=True,
    mirrored=False,
    alike=True,
)


# ── which passes ────────────────────────────────────────────────────────────
ALIKE = {
    "another width": {"text": source(program_of(RBF(1.7e-5)), precise=True)},
    "rows of the same power of two": {"d": 1024},
}
OTHERS = {
    "device": {"device": "a GPU (9.0)"},
    "versions": {"versions": "torch 2.12.0, triton 3.6.0"},
    "another formula": {"text": source(program_of(Matern(1.5, 1.0)), precise=True)},
    "rough": {"text": source(program_of(RBF(0.3))), "precise": False},
    "longer rows": {"d": 1088},
    "shorter rows": {"d": 512},
    "columns": {"columns": 64},
    "both sides": {"mirrored": True},
    "scales": {"alike": False},
}


@pytest.mark.parametrize("name", sorted(ALIKE))
def test_passes_of_a_class(name):
    assert replace(OWN, **ALIKE[name]).key == OWN.key


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_passes_of_other_classes(name):
    assert replace(OWN, **OTHERS[name]).key != OWN.key


# ── which blocks ────────────────────────────────────────────────────────────
TABLE = {
    (d, cut)
    for d in (16, 32, 64, 128, 256, 768, 10_048)
    for precise in (False, True)
    for cut in (
        Blocks.usual(d, precise=precise),
        *(Blocks.mirrored(c, precise=precise) for c in (16, 32, 64, 128) if d >= 256),
    )
}


@pytest.mark.parametrize(("d", "cut"), sorted(TABLE, key=str))
def test_candidates_are_the_tables_and_its_neighbours(d, cut):
    found = tuned.candidates(cut, d)
    assert found[0] == cut
    assert 3 <= len(found) == len(set(found)) <= 6
    assert all(each.suits(d) for each in found)


SENSELESS = [
    {"BM": 512},
    {"BN": 8},
    {"BN": 96},
    {"BK": 128},  # 192 numbers a row are no multiple of it
    {"BK": 0},
    {"BM": -128},
    {"num_warps": 5},
    {"num_stages": 0},
    {"num_stages": 100},
    {"BM": 128.0},
    {"BM": True},
]


@pytest.mark.parametrize("sizes", SENSELESS)
def test_blocks_that_no_pass_has(sizes):
    assert Blocks().suits(192)
    assert not Blocks(**sizes).suits(192)


class OutOfResources(Exception):
    pass


def clock(times, otherwise=1.0):
    """Seconds of blocks; an exception is raised."""

    def seconds_of(cut):
        took = times.get(cut, otherwise)
        if isinstance(took, Exception):
            raise took
        return took

    return seconds_of


WIDER = replace(USUAL, BN=128)
DEEPER = replace(USUAL, num_stages=4)
WON = {
    "nothing is faster": ({}, USUAL),
    "within noise": ({WIDER: 0.96}, USUAL),
    "beyond it": ({WIDER: 0.94}, WIDER),
    "the fastest": ({WIDER: 0.9, DEEPER: 0.8}, DEEPER),
    "one has no room": ({WIDER: OutOfResources(), DEEPER: 0.9}, DEEPER),
    "one does not compile": ({WIDER: RuntimeError("PassManager::run failed")}, USUAL),
    "one is not to be trusted": ({WIDER: None, DEEPER: 0.9}, DEEPER),
    "no number": ({WIDER: float("nan")}, USUAL),
    "the table's has no room": ({USUAL: OutOfResources(), WIDER: 2.0, DEEPER: 0.99}, DEEPER),
}


@pytest.mark.parametrize("name", sorted(WON))
def test_the_fastest_wins_beyond_noise(name):
    times, winner = WON[name]
    assert tuned.fastest(USUAL, 768, clock(times)) == winner


def test_where_the_tables_have_no_room_smaller_ones_are_tried():
    cut, seen = Blocks(BN=256), []

    def seconds_of(each):
        seen.append(each)
        if each.BM > 64:
            raise OutOfResources
        return 1.0

    assert tuned.fastest(cut, 768, seconds_of) == cut.smaller[-1]
    assert len(seen) == len(set(seen))


def test_without_a_trial_there_is_no_winner():
    assert tuned.fastest(USUAL, 768, clock({}, otherwise=OutOfResources())) is None


# ── what is written ─────────────────────────────────────────────────────────
def test_what_is_written_is_read(tmp_path):
    assert tuned.read(tmp_path, OWN.key) is None
    for cut in (WIDER, DEEPER):
        tuned.write(tmp_path, OWN.key, cut)
        assert tuned.read(tmp_path, OWN.key) == cut
    assert tuned.read(tmp_path, replace(OWN, columns=16).key) is None
    assert [path.suffix for path in (tmp_path / "blocks").iterdir()] == [".json"]


def spoilt(**changes):
    sizes = {"BM": 128, "BN": 64, "BK": 64, "num_warps": 8, "num_stages": 3}
    whole = {"format": 1, "for": OWN.key, "blocks": sizes} | changes
    return json.dumps(whole).encode()


SIZES = json.loads(spoilt())["blocks"]
SPOILT = {
    "empty": b"",
    "cut off": spoilt()[:-7],
    "no text": b"\xff\xfe\x00\x80",
    "a list": b"[1, 2]",
    "a number": b"3",
    "deep": b"[" * 4000,
    "long": spoilt() + b" " * 10_000,
    "another format": spoilt(format=2),
    "for another": spoilt(**{"for": "something else"}),
    "no blocks": spoilt(blocks=None),
    "one missing": spoilt(blocks={"BM": 128}),
    "one too many": spoilt(blocks={**SIZES, "more": 1}),
    "text for a number": spoilt(blocks={**SIZES, "BM": "128"}),
    "true for a number": spoilt(blocks={**SIZES, "num_stages": True}),
    "no power of two": spoilt(blocks={**SIZES, "BN": 96}),
    "too large": spoilt(blocks={**SIZES, "BM": 2**20}),
    "negative": spoilt(blocks={**SIZES, "BK": -64}),
    "not finite": spoilt(blocks={**SIZES, "BK": float("inf")}),
}


@pytest.mark.parametrize("name", sorted(SPOILT))
def test_what_is_spoilt_is_nothing(name, tmp_path):
    path = tuned.path_of(tmp_path, OWN.key)
    path.parent.mkdir()
    path.write_bytes(spoilt())
    assert tuned.read(tmp_path, OWN.key) == USUAL
    path.write_bytes(SPOILT[name])
    assert tuned.read(tmp_path, OWN.key) in (None, *([USUAL] if name == "long" else []))
    assert Choices(tune=False, folder=tmp_path).blocks(OWN, USUAL, clock({})) == USUAL
    tuned.write(tmp_path, OWN.key, WIDER)
    assert tuned.read(tmp_path, OWN.key) == WIDER


def test_where_nothing_can_be_written_nothing_is(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    for folder in (blocked, None):
        tuned.write(folder, OWN.key, WIDER)
        assert tuned.read(folder, OWN.key) is None
    assert blocked.read_text() == "no folder"
    (tmp_path / "blocks").mkdir()
    tuned.path_of(tmp_path, OWN.key).mkdir()  # a folder in its place
    tuned.write(tmp_path, OWN.key, WIDER)
    assert tuned.read(tmp_path, OWN.key) is None
    assert len(list((tmp_path / "blocks").iterdir())) == 1  # no part of a file is left


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_of_others(tmp_path):
    tmp_path.chmod(0o500)
    tuned.write(tmp_path, OWN.key, WIDER)
    assert tuned.read(tmp_path, OWN.key) is None


def test_many_writers_lose_nothing(tmp_path):
    """A reader sees what one of them wrote, whole; what is written for other classes stays."""
    cuts = [Blocks(num_stages=stages) for stages in (2, 3, 4, 5)]
    keys = [replace(OWN, columns=columns).key for columns in (16, 32)]
    seen = set()

    def work(cut):
        for _ in range(25):
            for key in keys:
                tuned.write(tmp_path, key, cut)
                seen.add(tuned.read(tmp_path, key))

    threads = [Thread(target=work, args=(cut,)) for cut in cuts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen <= set(cuts)
    assert {tuned.read(tmp_path, key) for key in keys} <= set(cuts)
    assert len(list((tmp_path / "blocks").iterdir())) == len(keys)


PLATFORMS = {
    "linux": Path(".cache", "mercer"),
    "darwin": Path("Library", "Caches", "mercer"),
    "win32": Path("AppData", "Local", "mercer", "Cache"),
}


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_the_folder_is_the_users(platform, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for given in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert tuned.cache_folder() == tmp_path / PLATFORMS[platform]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert tuned.cache_folder() == tmp_path / "elsewhere" / "mercer"


def test_without_a_home_there_is_no_folder(monkeypatch):
    def nobody():
        msg = "Could not determine home directory."
        raise RuntimeError(msg)

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    assert tuned.cache_folder() is None
    assert Choices(tune=True).blocks(OWN, USUAL, clock({WIDER: 0.5})) == WIDER


# ── who decides ─────────────────────────────────────────────────────────────
def untimed(cut):
    pytest.fail(f"{cut} was tried")


def test_nothing_is_tried_unless_it_is_asked_for(tmp_path):
    assert Choices(tune=False, folder=tmp_path).blocks(OWN, USUAL, untimed) == USUAL
    assert not list(tmp_path.iterdir())


def test_a_class_is_tuned_once(tmp_path):
    times = clock({WIDER: 0.5})
    assert Choices(tune=True, folder=tmp_path).blocks(OWN, USUAL, times) == WIDER
    for tune in (False, True):
        assert Choices(tune=tune, folder=tmp_path).blocks(OWN, USUAL, untimed) == WIDER


def test_the_tables_are_written_too(tmp_path):
    """That nothing is faster need not be found twice; that no trial succeeded may change."""
    fails = clock({}, otherwise=OutOfResources())
    assert Choices(tune=True, folder=tmp_path).blocks(OWN, USUAL, fails) == USUAL
    assert tuned.read(tmp_path, OWN.key) is None
    assert Choices(tune=True, folder=tmp_path).blocks(OWN, USUAL, clock({})) == USUAL
    assert tuned.read(tmp_path, OWN.key) == USUAL


def test_an_engine_has_one_choice_throughout(tmp_path):
    choices = Choices(tune=False, folder=tmp_path)
    assert choices.blocks(OWN, USUAL, untimed) == USUAL
    tuned.write(tmp_path, OWN.key, WIDER)  # by another
    assert choices.blocks(OWN, USUAL, untimed) == USUAL
    assert Choices(tune=False, folder=tmp_path).blocks(OWN, USUAL, untimed) == WIDER


def test_blocks_of_a_class_that_do_not_fit_its_rows(tmp_path):
    tuned.write(tmp_path, OWN.key, replace(WIDER, BK=256))
    assert (
        Choices(tune=False, folder=tmp_path).blocks(replace(OWN, d=1024), USUAL, untimed).BK == 256
    )
    assert Choices(tune=False, folder=tmp_path).blocks(replace(OWN, d=576), USUAL, untimed) == USUAL


@pytest.mark.parametrize(
    ("text", "asked"), [("on", True), ("1", True), ("off", False), ("", False)]
)
def test_the_environment_asks(text, asked, monkeypatch):
    monkeypatch.setenv("MERCER_TUNE", text)
    assert tuned.is_asked(None) is asked
    assert tuned.is_asked(True) is True
    assert tuned.is_asked(False) is False


def test_blocks_of_a_class_are_not_for_rows_that_they_do_not_divide(tmp_path):
    """Rows of 192 and of 256 numbers are one class."""
    longer, shorter = replace(OWN, d=256), replace(OWN, d=192)
    assert longer.key == shorter.key
    deep = replace(USUAL, BK=128)
    tuned.write(tmp_path, longer.key, deep)
    choices = Choices(tune=False, folder=tmp_path)
    assert choices.blocks(longer, USUAL, clock({})) == deep
    assert choices.blocks(shorter, USUAL, clock({})) == USUAL
    assert choices.blocks(longer, USUAL, clock({})) == deep
