"""The compiled tiles under sanitizers, over a copy of the sources: ``python tests/sanitized.py``.

AddressSanitizer and UndefinedBehaviorSanitizer over all of its laws, ThreadSanitizer over those of threads.
They want GCC, whose libraries are loaded before everything else.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAWS = [
    f"tests/laws/test_{name}.py"
    for name in ("native", "native_explained", "native_slopes", "native_squares", "thin")
]
# By name: flags of the compiler, libraries to be loaded first, options, and which tests run.
SANITIZERS = {
    "address and undefined behaviour": (
        ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
        ["libasan.so", "libubsan.so"],
        {"ASAN_OPTIONS": "detect_leaks=0"},  # Python itself keeps memory until it ends
        "not ctrl_c and not child",
    ),
    "threads": (
        ["-fsanitize=thread"],
        ["libtsan.so"],
        {"TSAN_OPTIONS": "exitcode=66 ignore_noninstrumented_modules=1"},
        "threads",
    ),
}


def main():
    for name, (flags, libraries, options, chosen) in SANITIZERS.items():
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            src = Path(folder) / "src"
            shutil.copytree(
                ROOT / "src", src, ignore=shutil.ignore_patterns("*.so.1", "__pycache__")
            )
            build = src / "mercer" / "engine" / "native" / "build.py"
            subprocess.run([sys.executable, build, *flags, "-g", "-O1"], check=True)
            first = [
                subprocess.check_output(["gcc", f"-print-file-name={each}"], text=True).strip()
                for each in libraries
            ]
            env = {**os.environ, **options, "LD_PRELOAD": " ".join(first)}
            env |= {"PYTHONPATH": str(src), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                *LAWS,
                "-k",
                chosen,
            ]
            subprocess.run(command, cwd=ROOT, env=env, check=True)


if __name__ == "__main__":
    main()
