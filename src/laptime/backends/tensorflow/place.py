"""Where a TensorFlow model runs: devices, threads, how to wait, versions, knobs; what TensorFlow raises."""

import os
import re
from collections.abc import Callable
from typing import Any

from laptime.backends._shared import Later, call_error, environment, no_device, no_memory, nothing
from laptime.backends.tensorflow import available
from laptime.kit.errors import LaptimeError, UsageError, UserCodeError
from laptime.records.environment import Device
from laptime.records.plan import Variant

tf = Later("tensorflow")

# fmt: off
_ENVIRONMENT = (
    "TF_CUDA_", "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_DISABLE_", "TF_ENABLE_", "TF_FORCE_", "TF_GPU_",
    "TF_MKL_", "TF_NUM_", "TF_ONEDNN_", "TF_USE_", "TF_XLA_", "XLA_", "KERAS_BACKEND", "OMP_", "KMP_",
    "DNNL_", "ONEDNN_", "MALLOC_", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE",
)
# fmt: on


def claim(variant: Variant) -> str:
    """Make the device of a variant the only one that TensorFlow sees, with its threads; returns its name.
    Raises Unavailable: there is none. UsageError: TensorFlow has started already, with another or other
    threads."""
    numbers = {"intra": variant.threads, "inter": _number(variant.options.get("inter_threads"))}
    for kind, threads in numbers.items():
        get, set_ = (
            getattr(tf.config.threading, f"{verb}_{kind}_op_parallelism_threads") for verb in ("get", "set")
        )
        if threads is not None and get() != threads:
            try:
                set_(threads)
            except RuntimeError as error:
                raise _too_late(f"{threads} threads", error) from error
    gpus = tf.config.list_physical_devices("GPU")
    there = [*(f"cuda:{index}" for index in range(len(gpus))), "cpu"]
    name = there[0] if variant.device == "auto" else variant.device
    name = {"cuda": "cuda:0", "cpu:0": "cpu"}.get(name, name)
    if name not in there:
        raise no_device(variant.device, f"tensorflow {tf.__version__}", there)
    visible = [] if name == "cpu" else [gpus[int(name.partition(":")[2])]]
    if tf.config.get_visible_devices("GPU") != visible:
        try:
            tf.config.set_visible_devices(visible, "GPU")
            for gpu in visible:
                tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError as error:
            raise _too_late(f"the device {name}", error) from error
    return name


def _number(text: str | None) -> int | None:
    if text is None or (text.isdecimal() and int(text) > 0):
        return None if text is None else int(text)
    why = "it must be a whole number above zero"
    raise UsageError(f"{text!r} is not a number of threads", why=why, next="--option inter_threads=1")


def _too_late(what: str, error: RuntimeError) -> UsageError:
    return UsageError(
        f"{what} cannot be chosen any more",
        why=f"TensorFlow has started in this process: {str(error).partition(chr(10))[0]}",
        next="measure a target by name (file.py:function): that runs in a process of its own",
    )


def waits(name: str) -> bool:
    return name != "cpu" or not tf.config.experimental.get_synchronous_execution()


def waiter(name: str) -> Callable[[], None]:
    return tf.test.experimental.sync_devices if waits(name) else nothing


def describe(name: str) -> list[Device]:
    if name == "cpu":
        return [Device(name="cpu", model="CPU")]
    gpu = tf.config.get_visible_devices("GPU")[0]
    gpu_details = tf.config.experimental.get_device_details(gpu)
    capability = ".".join(str(part) for part in gpu_details.get("compute_capability", ()))
    details = {"compute_capability": capability} if capability else {}
    return [Device(name=name, model=gpu_details.get("device_name", "GPU"), details=details)]


def libraries(name: str) -> dict[str, str]:
    by_name = available()
    if name != "cpu":
        build = tf.sysconfig.get_build_info()
        by_name |= {
            key: str(build[f"{key}_version"]) for key in ("cuda", "cudnn") if f"{key}_version" in build
        }
    return by_name


def knobs(name: str) -> dict[str, Any]:
    """Effective settings of TensorFlow that change speed or results, and the environment behind them."""
    cpus = len(os.sched_getaffinity(0))
    threading = tf.config.threading
    settings: dict[str, Any] = {
        "tf.intra_op_threads": threading.get_intra_op_parallelism_threads() or cpus,
        "tf.inter_op_threads": threading.get_inter_op_parallelism_threads() or cpus,
        "tf.jit": str(tf.config.optimizer.get_jit() or "off"),
        "tf.synchronous": tf.config.experimental.get_synchronous_execution(),
    }
    if name != "cpu":
        settings["tf.tf32"] = tf.config.experimental.tensor_float_32_execution_enabled()
    return settings | environment(_ENVIRONMENT)


# What TensorFlow raises, as laptime's errors. Only exhausted memory is OutOfMemory.


_EXHAUSTED = ("OOM when allocating", "Out of memory", "out of memory", "std::bad_alloc")
_UNCOMPILABLE = ("unsupported operations", "XLA can't", "must be a compile-time constant", "tf2xla")
_NODE = re.compile(r"^(\{\{[^}]*\}\}\s*)+")  # "{{function_node __inference_call_47}}", of nobody's choice
_LONGEST = 300


def memory_exhausted(error: BaseException | None) -> bool:
    """Whether an exception, or what it was raised from, says that memory is exhausted."""
    while error is not None:
        if isinstance(error, MemoryError | tf.errors.ResourceExhaustedError):
            return True
        if not isinstance(error, LaptimeError) and any(text in str(error) for text in _EXHAUSTED):
            return True
        error = error.__cause__
    return False


def translate(error: BaseException, *, doing: str, inputs: str = "") -> LaptimeError:
    """One of laptime's errors for whatever loading or calling a model raised; laptime's own come back as they
    are, unless memory is behind them. doing: the first line. inputs: in words, told when the model refuses
    them."""
    if memory_exhausted(error):
        return no_memory(doing, _line(error.__cause__ or error))
    if isinstance(error, LaptimeError):
        return error
    if any(text in str(error) for text in _UNCOMPILABLE):
        return UserCodeError(
            f"{doing}: XLA cannot compile it", why=_line(error), next="--option mode=function"
        )
    return call_error(doing, error, _line(error), inputs=inputs)


def _line(error: BaseException) -> str:
    """The first line that says something: Keras and TensorFlow put frames of their own before it."""
    lines = [line.strip() for line in str(error).splitlines()]
    line_shown = next((line for line in lines if line and not line.startswith("Graph execution error")), "")
    line_shown = _NODE.sub("", line_shown) or type(error).__name__
    return line_shown if len(line_shown) <= _LONGEST else line_shown[: _LONGEST - 4] + " ..."
