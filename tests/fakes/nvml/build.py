"""Builds the NVML stand-in: a `libnvidia-ml.so.1` with every function that NVIDIA's header declares.

Each function is generated from its declaration: it enters the session, calls `answer_<function>` where the C
files beside this one define it (`NVML_ERROR_NOT_SUPPORTED` where not), and leaves. The header comes from PyPI's
`nvidia-nvml-dev`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

SOURCES = Path(__file__).parent
CACHE = Path(__file__).parents[3] / ".cache" / "nvml-standin"
LIBRARY = "libnvidia-ml.so.1"

FLAGS = (
    "-std=gnu11 -O1 -g -fPIC -shared -pthread -fvisibility=hidden -Wall -Wextra -Werror"
    " -DNVML_NO_UNVERSIONED_FUNC_DEFS"  # else the header renames old functions to new ones
    f" -Wl,-soname,{LIBRARY}"
).split()

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DECLARATION = re.compile(r"\bnvmlReturn_t\s+DECLDIR\s+(nvml\w+)\s*\(([^)]*)\)\s*;")


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the header declares to return `nvmlReturn_t`."""

    name: str
    parameters: str

    @property
    def arguments(self) -> str:
        """The parameters' names, as a call passes them on."""
        if self.parameters == "void":
            return ""
        return ", ".join(re.findall(r"(\w+)\s*(?:,|$)", self.parameters))

    @property
    def device(self) -> str:
        """Where the call's device handle is, or NULL: faults and lost GPUs go by it."""
        first = re.match(r"nvmlDevice_t (\w+)", self.parameters)
        return f"&{first[1]}" if first else "NULL"


def read_header() -> Path:
    """The path of `nvml.h` in the installed `nvidia-nvml-dev`."""
    files = distribution("nvidia-nvml-dev").files or []
    return next(Path(str(file.locate())) for file in files if file.name == "nvml.h")


def parse_functions(header: str) -> tuple[Function, ...]:
    """Every function of the header that returns `nvmlReturn_t`."""
    found = _DECLARATION.findall(_COMMENT.sub(" ", header))
    return tuple(Function(name, " ".join(parameters.split())) for name, parameters in found)


def render_calls(functions: Collection[Function]) -> str:
    """`calls.h`: an enumeration of the calls, their names, and the answers' prototypes."""
    calls = "".join(f"    CALL_{function.name},\n" for function in functions)
    answers = "".join(
        f"__attribute__((weak)) nvmlReturn_t answer_{function.name}({function.parameters});\n"
        for function in functions
    )
    return (
        f"#pragma once\n#include <nvml.h>\nenum Call {{\n{calls}    CALL_COUNT\n}};\n"
        f"extern const char *const CALL_NAMES[CALL_COUNT];\n{answers}"
    )


def render_exports(functions: Collection[Function], omit: Collection[str]) -> str:
    """`exports.c`: the exported functions, but for those that an older driver lacks."""
    names = "".join(f'    "{function.name}",\n' for function in functions)
    wrappers = "".join(_render_wrapper(function) for function in functions if function.name not in omit)
    return (
        f'#include "standin.h"\n\nconst char *const CALL_NAMES[CALL_COUNT] = {{\n{names}}};\n{wrappers}'
        '\n__attribute__((visibility("default")))\nconst char *nvmlErrorString(nvmlReturn_t result)\n'
        '{\n    return result == NVML_SUCCESS ? "Success" : "NVML stand-in error";\n}\n'
    )


def _render_wrapper(function: Function) -> str:
    call = f"CALL_{function.name}, {function.device}"
    answer = f"answer_{function.name}"
    return f"""
__attribute__((visibility("default")))
nvmlReturn_t {function.name}({function.parameters})
{{
    nvmlReturn_t result = standin_enter({call});
    if (result == NVML_SUCCESS)
        result = {answer} ? {answer}({function.arguments}) : NVML_ERROR_NOT_SUPPORTED;
    return standin_leave({call}, result);
}}
"""


def build_library(directory: Path = CACHE, *, omit: Collection[str] = ()) -> Path:
    """Builds the library below `directory`, unless it is there already, and returns its path.

    `omit` names functions that it must not export, as a driver that predates them. Several processes may build
    at once: each builds for itself, the first to finish is used.
    """
    header = read_header()
    functions = parse_functions(header.read_text())
    if unknown := set(omit) - {function.name for function in functions}:
        raise ValueError(f"nvml.h declares no {', '.join(sorted(unknown))}")
    generated = {"calls.h": render_calls(functions), "exports.c": render_exports(functions, omit)}
    sources = sorted(SOURCES.glob("*.[ch]"))
    parts = [header.read_text(), *FLAGS, *generated.values(), *(source.read_text() for source in sources)]
    target = directory / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    if not target.is_dir():
        _compile(generated, sources, header, target)
    return target / LIBRARY


def _compile(generated: dict[str, str], sources: list[Path], header: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent))
    work.chmod(0o755)  # for exporters that run as another user
    for name, text in generated.items():
        (work / name).write_text(text)
    units = [work / "exports.c", *(source for source in sources if source.suffix == ".c")]
    # "-isystem": the header's own warnings are not ours.
    includes = [f"-I{work}", f"-I{SOURCES}", "-isystem", str(header.parent)]
    try:
        subprocess.run(["gcc", *FLAGS, *includes, *map(str, units), "-o", str(work / LIBRARY)], check=True)
        with suppress(OSError):  # another builder was faster
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
