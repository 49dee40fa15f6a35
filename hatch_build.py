"""Compiles the tiles while mercer is installed; where that is not possible mercer is pure Python."""

from __future__ import annotations

import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = "src/mercer/engine/native"


class CompiledTiles(BuildHookInterface):
    """One shared library beside the sources, in the wheel or in the source tree of an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        spec = spec_from_file_location("build_tiles", Path(self.root) / NATIVE / "build.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        try:
            library = module.build()
        except module.BuildError as error:
            self.app.display_warning(
                f"mercer runs on NumPy alone, without compiled tiles: {error}."
            )
            return
        build_data["artifacts"].append(f"{NATIVE}/{library.name}")
        build_data["pure_python"] = False
        # No Python header was used: any Python 3 of this platform loads it.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
