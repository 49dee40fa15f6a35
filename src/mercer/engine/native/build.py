"""Compile the library: ``python -m mercer.engine.native.build``, which installing mercer runs by itself.

One C++ file, compiled once for each instruction set and linked into one shared library with a plain C
interface: no Python header, no library but the system's own. So one wheel a platform serves every Python.
This file imports nothing of mercer, which may not be installed yet when it runs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
# On every system: it is loaded by its path. A name that ends in .so would be taken for a module of Python.
NAME = "libtiles.so.1"
SOURCE = "tiles.cpp"

FLAGS = ["-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"]
WARNINGS = ["-Wall", "-Wextra"]
# Products and sums in one rounding where the processor has it, and no more freedom than that: no -ffast-math.
ARITHMETIC = ["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
QUIET = ["-Wno-psabi", "-Wno-unknown-warning-option", "-Wno-unused-function", "-Wno-pass-failed"]

# Nothing of C++'s own library is used; linkers that can leave it out are asked to. Threads are the system's.
LINKED = ["-pthread"] if sys.platform == "darwin" else ["-Wl,--as-needed", "-pthread"]

PLAIN = {"plain": ["-DPLAIN", "-DVECTOR_BYTES=16"]}
X86 = {
    "avx2": ["-DVECTOR_BYTES=32", "-mavx2", "-mfma"],
    "avx512": ["-DVECTOR_BYTES=64", "-mfma", "-mprefer-vector-width=512"]
    + [f"-mavx512{part}" for part in ("f", "dq", "vl", "bw")],
}


def fingerprint() -> int | None:
    """62 bits of the sources beside this file, which the library is asked for; None where they are not there.

    A library of other sources lays its structures out otherwise, and what it computes is meaningless.
    """
    digest, sources = hashlib.blake2b(digest_size=8), sorted(HERE.glob("*.[ch]pp"))
    for source in sources:
        digest.update(source.read_bytes())
    return int.from_bytes(digest.digest(), "big") >> 2 if sources else None


class BuildError(Exception):
    """There is no compiler, or it failed; the message says what it printed."""


def compiler() -> list[str]:
    """The command of the C++ compiler."""
    if os.name == "nt":
        msg = "Windows is not supported yet"
        raise BuildError(msg)
    if chosen := os.environ.get("CXX"):
        return shlex.split(chosen)
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    msg = "there is no C++ compiler (c++, g++ or clang++); set CXX to one"
    raise BuildError(msg)


def build(folder: Path = HERE, *extra: str) -> Path:
    """Compile and link the library into a folder; its path."""
    command = compiler()
    sets = PLAIN | (X86 if platform.machine().lower() in ("x86_64", "amd64") else {})
    with tempfile.TemporaryDirectory() as scratch:
        objects = [str(Path(scratch) / f"{isa}.o") for isa in sets]

        def compiled(isa: str, target: str) -> None:
            named = [f"-DISA={isa}", f"-DSOURCES={fingerprint()}"]
            flags = [*FLAGS, *WARNINGS, *ARITHMETIC, *QUIET, *sets[isa], *named, *extra]
            _run([*command, *flags, "-c", str(HERE / SOURCE), "-o", target])

        with ThreadPoolExecutor() as pool:
            list(pool.map(compiled, sets, objects))
        made = Path(scratch) / NAME
        _run([*command, "-shared", *objects, *extra, *LINKED, "-o", str(made)])
        # Under its name in one step: a process that has the old one open keeps it.
        part = folder / f"{NAME}.{os.getpid()}.part"
        shutil.copyfile(made, part)
        os.replace(part, folder / NAME)
    return folder / NAME


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        msg = f"{command[0]} can't be run"
        raise BuildError(msg) from error
    except subprocess.CalledProcessError as error:
        msg = f"{command[0]} failed: {error.stderr.strip()[-2000:]}"
        raise BuildError(msg) from error


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build(HERE, *sys.argv[1:])}\n")
    except BuildError as error:
        sys.exit(f"No compiled tiles: {error}.")
