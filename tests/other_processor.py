"""Runs Python as if on another processor: other BLAS kernels, and NumPy without its widest vectors.

    python tests/other_processor.py -m pytest tests/laws

Sums are rounded in another order there. What holds here only because this machine rounds as it does falls.
"""

import json
import os
import subprocess
import sys

# By what OpenBLAS finds here, kernels that round otherwise and run here too; Haswell's have AVX2, but not
# the AVX-512 of these.
HASWELL_INSTEAD = {"SkylakeX", "Cooperlake", "SapphireRapids"}
OLDER = {"x86_64": "Nehalem", "AMD64": "Nehalem", "aarch64": "ARMV8", "arm64": "ARMV8"}
# What NumPy's fast paths are called, by version, from AVX-512 on and from AVX2 on.
AVX512 = ("AVX512", "X86_V4")
AVX2 = (*AVX512, "AVX2", "FMA3", "X86_V3")
LOOK = """
import json, platform, numpy, threadpoolctl
from numpy._core._multiarray_umath import __cpu_dispatch__ as known, __cpu_features__ as has
blas = [i["architecture"] for i in threadpoolctl.threadpool_info() if i["internal_api"] == "openblas"]
fast = [name for name in known if has.get(name)]
print(json.dumps({"machine": platform.machine(), "blas": blas[:1], "fast": fast}))
"""


def seen(environment):
    """The machine, the kernels that OpenBLAS chose and the fast paths that NumPy takes."""
    run = subprocess.run(
        [sys.executable, "-c", LOOK], env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(run.stdout)


def other(here):
    """The variables that make it another processor."""
    wide = any(name.startswith(AVX512) for name in here["fast"])
    if wide or set(here["blas"]) & HASWELL_INSTEAD:
        blas, slow = "Haswell", AVX512
    else:
        blas, slow = OLDER.get(here["machine"]), AVX2
    disabled = [name for name in here["fast"] if name.startswith(slow)]
    variables = {"NPY_DISABLE_CPU_FEATURES": " ".join(disabled), "OPENBLAS_CORETYPE": blas}
    return {name: value for name, value in variables.items() if value}


def main():
    plain = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    plain.pop("NPY_DISABLE_CPU_FEATURES", None)
    here = seen(plain)
    there = seen(environment := plain | other(here))
    if here == there:
        print(f"No other processor can be had on this one, so nothing was run: {here}.")
        return
    print(f"here: {here}\nnow:  {there}", flush=True)
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
