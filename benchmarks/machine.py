"""What the figures were measured on."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np  # noqa: F401  loads the BLAS that threadpool_info is asked about
import scipy.linalg  # noqa: F401  and SciPy's own
from threadpoolctl import threadpool_info

PACKAGES = ("numpy", "scipy", "scikit-learn", "mercer")


def facts(root: Path) -> dict[str, Any]:
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": git_commit(root),
        "cpu": cpu_model(),
        "cores": core_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: package_version(package) for package in PACKAGES},
        "blas": blas(),
    }


def core_count() -> int:
    """Cores this process may run on, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def blas() -> list[str]:
    """Each BLAS that is loaded, with its threads; numpy and scipy may bring their own."""
    return sorted(
        f"{lib['internal_api']} {lib['version']} {lib.get('architecture', '')}, "
        f"{lib['num_threads']} threads"
        for lib in threadpool_info()
        if lib["user_api"] == "blas"
    )


def git_commit(root: Path) -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = git("rev-parse", "--verify", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--", "src", "benchmarks")
    except OSError:
        return "unknown"
    return (commit or "no commit") + (" with local changes" if changed else "")
