"""Runs Python as if on another machine: other BLAS kernels, NumPy without its widest vectors, no compiler.

    python tests/other_processor.py -m pytest tests/laws

Sums are rounded in another order there, and tiles are NumPy's. What holds here only because this machine
rounds as it does falls.
"""

import json
import os
import subprocess
import sys

# By what OpenBLAS finds here, kernels that round otherwise and run here too, the nearest first.
WITHOUT_AVX512 = ("Haswell", "Sandybridge", "Nehalem")
WITHOUT_AVX2 = ("Nehalem",)
ON_ARM = ("ARMV8",)
# What NumPy's fast paths are called, by version, from AVX-512 on and from AVX2 on.
AVX512 = ("AVX512", "X86_V4")
AVX2 = (*AVX512, "AVX2", "FMA3", "X86_V3")
# The last line is for kernels that a build of OpenBLAS has, and crashes with when they are asked for.
LOOK = """
import json, platform, numpy, threadpoolctl
from numpy._core._multiarray_umath import __cpu_dispatch__ as known, __cpu_features__ as has
blas = [i["architecture"] for i in threadpoolctl.threadpool_info() if i["internal_api"] == "openblas"]
fast = [name for name in known if has.get(name)]
print(json.dumps({"machine": platform.machine(), "blas": blas[:1], "fast": fast}))
numpy.linalg.eigh(numpy.ones((900, 900)) @ numpy.ones((900, 900)))
"""


def seen(environment):
    """The machine, the kernels OpenBLAS chose and the fast paths NumPy takes; None if BLAS crashes."""
    run = subprocess.run(
        [sys.executable, "-c", LOOK], env=environment, check=False, capture_output=True, text=True
    )
    return json.loads(run.stdout) if run.returncode == 0 else None


def others(here):
    """Variables that make it another processor, the nearest first."""
    is_wide = any(name.startswith(AVX512) for name in here["fast"])
    kernels, slow = (WITHOUT_AVX512, AVX512) if is_wide else (WITHOUT_AVX2, AVX2)
    if here["machine"] in {"aarch64", "arm64"}:
        kernels = ON_ARM
    disabled = " ".join(name for name in here["fast"] if name.startswith(slow))
    features = {"NPY_DISABLE_CPU_FEATURES": disabled} if disabled else {}
    return [features | {"OPENBLAS_CORETYPE": name} for name in kernels]


def main():
    chosen = {"OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES"}
    plain = {name: value for name, value in os.environ.items() if name not in chosen}
    here = seen(plain)
    for variables in others(here):
        there = seen(plain | variables)
        if there is None:
            print(f"BLAS crashes here with {variables}.")
        elif there != here:
            print(f"here: {here}\nnow:  {there}", flush=True)
            there = plain | variables | {"MERCER_NATIVE": "off"}
            os.execve(sys.executable, [sys.executable, *sys.argv[1:]], there)
    print(f"No other processor can be had on this one, so nothing was run: {here}.")


if __name__ == "__main__":
    main()
