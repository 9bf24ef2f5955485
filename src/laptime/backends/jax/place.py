"""Where a model runs, and what JAX raises, as laptime's errors. Only exhausted memory is OutOfMemory."""

from __future__ import annotations

from typing import Any

from laptime.backends._installed import versions
from laptime.kit.errors import LaptimeError, OutOfMemory, Unavailable, UserCodeError
from laptime.kit.text import closest
from laptime.targets._code import line_of

_EXHAUSTED = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "std::bad_alloc")


def available() -> dict[str, str]:
    """Versions of jax and of what it runs models with; {} without jax."""
    return versions({name: (name,) for name in ("jax", "jaxlib", "flax", "equinox")}, needs="jax")


def resolve(name: str) -> Any:
    """The device of a name; "auto" is jax's own choice. `cuda` means `cuda:0`.

    Raises:
        Unavailable: it is not there; those that are there are named.
    """
    import jax

    there = {name_of(device): device for device in (*jax.devices(), *jax.devices("cpu")[:1])}
    if name == "auto":
        return next(iter(there.values()))
    full = name if ":" in name or name == "cpu" else f"{name}:0"
    if full not in there:
        raise Unavailable(
            f"there is no device {name!r}",
            why=f"jax {jax.__version__} sees {', '.join(there)}",
            next=f"--device {closest(name, [*there]) or next(iter(there))}",
        )
    return there[full]


def name_of(device: Any) -> str:
    """As the other frameworks write it: cpu, cuda:0."""
    if device.platform == "cpu":
        return "cpu"
    is_rocm = "rocm" in str(getattr(device.client, "platform_version", "")).lower()
    kind = {"gpu": "rocm" if is_rocm else "cuda"}.get(device.platform, device.platform)
    return f"{kind}:{device.id}"


def explain(error: BaseException, doing: str) -> LaptimeError:
    """OutOfMemory for exhausted memory, laptime's own errors as they are, UserCodeError for the rest."""
    behind = error.__cause__ if isinstance(error, UserCodeError) and error.__cause__ else error
    text = str(behind).strip().partition("\n")[0]
    if isinstance(behind, MemoryError) or any(word in text for word in _EXHAUSTED):
        return OutOfMemory(
            f"{doing}: memory is exhausted", why=text or type(behind).__name__, next="a smaller --batch"
        )
    if isinstance(error, LaptimeError):
        return error
    place = line_of(error)
    return UserCodeError(
        doing,
        why=f"{type(error).__name__}: {text}" + (f" ({place})" if place else ""),
        next="check the model and its inputs: jax.jit(model)(inputs) has to work",
    )
