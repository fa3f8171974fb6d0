"""``holdfast info``: what is built in, what is off and why, which options are in force."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
import textwrap
from pathlib import Path
from typing import Any

from holdfast import __version__, _core, _mpi, _torch_modules, _transports
from holdfast.compress.codec import is_lossless, measured_dtype
from holdfast.errors import HoldfastError
from holdfast.options import Options, variables
from holdfast.topology.discover import nvml_module


def _torch() -> dict[str, Any]:
    fits = [_torch_modules.text_of(minor) for minor in _torch_modules.minors()]
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        why = f"torch is not installed; this installation fits {', '.join(fits) or 'none'}"
        return {"on": False, "why": why, "fits": fits}
    try:
        from holdfast.torch import native

        module = native()
    except ImportError as error:
        return {"on": False, "why": str(error), "torch": version, "fits": fits}
    import torch

    # Its own word says which build of the version it is.
    version = str(torch.__version__)
    return {"on": True, "torch": version, "built_for": module.built_for_torch, "fits": fits}


def _cuda(options: Options) -> dict[str, Any]:
    try:
        version, devices = _core.cuda_devices(options.cuda_driver)
    except HoldfastError as error:
        return {"on": False, "why": str(error)}
    direct = "off" if options.cuda_ipc == "off" else f"from {options.cuda_ipc_min_bytes} bytes"
    coded = "off" if options.cuda_codec == "off" else f"from {options.cuda_codec_min_bytes} bytes"
    told = {
        "driver": f"{version // 1000}.{version % 1000 // 10}",
        "devices": devices,
        "device_to_device": direct,
        "codecs_on_device": coded,
    }
    if not devices:
        return {"on": False, "why": f"driver {told['driver']} has no device", **told}
    return {"on": True, **told}


def _kernels() -> dict[str, Any]:
    images = _core.kernel_images()
    if not images:
        return {"on": False, "why": "this build was made without nvcc"}
    return {"on": True, "images": images}


def _transport(name: str) -> dict[str, Any]:
    try:
        version = _core.look_at_transport(name)
    except HoldfastError as error:
        return {"on": False, "why": str(error).split(", and ", 1)[-1]}
    return {"on": True, "version": version} if version else {"on": True}


def _mpi_programs() -> dict[str, Any]:
    abis = _mpi.installed()
    if not abis:
        return {"on": False, "why": "this build was made without it"}
    return {"on": True, "abis": abis, "unsupported": _mpi.unsupported()}


def _nvml() -> dict[str, Any]:
    if nvml_module() is None:
        return {"on": False, "why": "the package nvidia-ml-py is not installed"}
    return {"on": True}


def _parts(options: Options) -> dict[str, dict[str, Any]]:
    return {
        "PyTorch backend": _torch(),
        **{row.title: _transport(row.name) for row in _transports.rows()},
        "CUDA": _cuda(options),
        "GPU kernels": _kernels(),
        "MPI": _mpi_programs(),
        "NVML": _nvml(),
    }


def _encoded(options: Options) -> str:
    """Say what would travel encoded that does not ask for it."""
    if not options.codec:
        return "nothing"
    codec = str(options.codec)
    summed = "bf16" if measured_dtype(codec) == "bf16" else "f32, bf16 and f16"
    sums = f"all_reduce and reduce_scatter, sum or avg, of {summed}"
    how = f"from {options.codec_min_bytes} bytes: {codec}"
    if not is_lossless(codec):
        return f"{sums} {how}, without error feedback"
    moved = "bf16" if summed == "bf16" else "any dtype"
    return (
        f"{sums}, and all_gather, broadcast and all_to_all of equal blocks, of {moved}, "
        f"{how}, losing nothing"
    )


def collect() -> dict[str, Any]:
    """Collect what ``holdfast info`` shows.

    Returns
    -------
    dict
        JSON-compatible.

    Raises
    ------
    ConfigError
        When the environment sets an option that cannot be used.
    """
    options = Options.from_env()
    in_force = {}
    for name, variable in variables().items():
        source = variable if os.environ.get(variable, "").strip() else "default"
        in_force[name] = {"value": getattr(options, name), "source": source}
    return {
        "version": __version__,
        "protocol": _core.protocol_version,
        "compiler": _core.compiler,
        "instructions": _core.instruction_set(),
        "python": platform.python_version(),
        "parts": _parts(options),
        "dtypes": _core.dtypes(),
        "reductions": _core.reduce_ops(),
        "algorithms": [
            {"algorithm": name, "collective": collective, "source": source, "codec": coded}
            for name, collective, source, coded in _core.algorithms()
        ],
        "codecs": _core.codecs(),
        "encoded": _encoded(options),
        "options": in_force,
    }


def show(*, as_json: bool) -> int:
    """Print it.

    Parameters
    ----------
    as_json : bool
        One JSON object instead of text.

    Returns
    -------
    int
        Exit status 0.
    """
    info = collect()
    if as_json:
        print(json.dumps(info, indent=2))
        return 0
    print(f"holdfast {info['version']}, protocol {info['protocol']}")
    print(f"  built with {info['compiler']}; reductions use {info['instructions']}")
    print("parts")
    for name, part in info["parts"].items():
        state = "on" if part["on"] else f"off: {part['why']}"
        extra = ""
        if part["on"] and "torch" in part:
            extra = f" (torch {part['torch']}, by the module for {part['built_for']}"
            extra += f"; here are {', '.join(part['fits'])})"
        if part["on"] and "abis" in part:
            titles = ", ".join(_mpi.TITLES[abi] for abi in part["abis"])
            extra = f" (programs of {titles}; {len(part['unsupported'])} functions are not "
            extra += "supported: holdfast info --mpi)"
        if part["on"] and "version" in part:
            extra = f" ({part['version']})"
        if part["on"] and "devices" in part:
            direct = part["device_to_device"]
            devices = ", ".join(part["devices"])
            coded = part["codecs_on_device"]
            extra = (
                f" (driver {part['driver']}: {devices}; device to device {direct}; "
                f"codecs on the device {coded})"
            )
        print(f"  {name:16} {state}{extra}")
    print("options")
    for name, option in info["options"].items():
        value = ",".join(option["value"]) if name == "transports" else option["value"]
        print(f"  {name:16} {value!s:12} ({option['source']})")
    print("algorithms")
    for row in info["algorithms"]:
        coded = ", with a codec" if row["codec"] else ""
        print(f"  {row['collective']:16} {row['algorithm']:14} {row['source']}{coded}")
    print("codecs")
    print(f"  {', '.join(info['codecs'])}")
    print(f"  encoded without being asked for: {info['encoded']}")
    return 0


def show_mpi() -> int:
    """Print which ABIs of MPI there are libraries for, and which functions are not supported.

    Returns
    -------
    int
        Exit status 0; 1 when there are no libraries.
    """
    abis = _mpi.installed()
    if not abis:
        print("MPI: off: this build was made without it")
        return 1
    for abi in abis:
        print(f"{abi:8} {_mpi.TITLES[abi]}: {_mpi.library(abi)}")
    names = _mpi.unsupported()
    print(f"{len(names)} functions return MPI_ERR_UNSUPPORTED_OPERATION:")
    print(textwrap.fill(" ".join(names), 100, initial_indent="  ", subsequent_indent="  "))
    return 0


def build_flags(*, compiler: bool, linker: bool) -> str:
    """Return what a C or C++ compiler needs to build against the installed library.

    Parameters
    ----------
    compiler, linker : bool
        Which flags.

    Returns
    -------
    str
        Flags for a shell.
    """
    package = Path(__file__).parent
    flags = []
    if compiler:
        flags.append(f"-I{package / 'include'}")
    if linker:
        # No link-time name: the library lies in the package, beside the modules that use it.
        flags += [f"-L{package}", f"-Wl,-rpath,{package}", "-lholdfast"]
    return shlex.join(flags)
