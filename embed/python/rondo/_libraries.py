"""Special treatment of arrays of other libraries: views whose memory holds other values, immutable arrays, and conversion of results."""

from __future__ import annotations

import importlib
import re
import sys

# Arrays of these libraries are immutable, even if they are exported as writable.
IMMUTABLE = {"jax", "jaxlib", "tensorflow"}
_NUMBERS = re.compile(r"bool|u?int\d+|b?float\d+|complex\d+")
# Modules in which a library that is not named below may have its from_dlpack.
_PLACES = ("", ".numpy", ".dlpack", ".utils.dlpack", ".experimental.dlpack")


def _names(array):
    """The top-level modules of the array's type and of its base types."""
    tops = (kind.__module__.partition(".")[0] for kind in type(array).__mro__)
    return [top for top in dict.fromkeys(tops) if top not in ("builtins", "__main__", "abc", "typing")]


def is_immutable(array):
    return not IMMUTABLE.isdisjoint(_names(array))


def check_exportable(array):
    """Raises TypeError for element types that DLPack does not have. TensorFlow ends the process if a tensor of strings, variants or
    resources is exported, so this function checks the name of the type before."""
    dtype = getattr(getattr(array, "dtype", None), "name", None)
    if "tensorflow" in _names(array) and isinstance(dtype, str) and not _NUMBERS.fullmatch(dtype):
        raise TypeError(f"expected a TensorFlow tensor of numbers or bool, got {dtype}; allgather_object and broadcast_object support other objects")


def resolved(array):
    """Returns an array of the same values whose memory holds these values: the array itself, or a copy. torch's views may only record that
    they are conjugated or negated, and torch exports the original memory then. torch also has zero tensors without memory."""
    for is_so, resolve in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg"), ("_is_zerotensor", "clone")):
        if callable(getattr(array, is_so, None)) and getattr(array, is_so)():
            array = getattr(array, resolve)()
    return array


def adopt(result, like, dtype):
    """Converts `result`, a new NumPy array without another owner, to an array of the library of `like`. `dtype` is the name of the element
    type; if NumPy lacks the type, the elements of `result` are integers. Returns `result` if the library cannot take it."""
    names = _names(like)
    if "tensorflow" in names:
        tensorflow = sys.modules["tensorflow"]
        with tensorflow.device(like.device):
            return tensorflow.convert_to_tensor(result)
    if "jax" in names or "jaxlib" in names:
        return importlib.import_module("jax").device_put(result, next(iter(like.devices())))
    convert = _converter(like, names)
    if convert is None:
        return result
    # NumPy cannot export these types, so they are exported as integers.
    if dtype in ("bool", "bfloat16"):
        return convert(result.view("uint8" if dtype == "bool" else "int16")).view(like.dtype)
    return convert(result)


def _converter(like, names):
    if hasattr(like, "__array_namespace__"):
        convert = getattr(like.__array_namespace__(), "from_dlpack", None)
        if convert is not None:
            return convert
    for name in names:
        for place in _PLACES:
            module = sys.modules.get(name + place)
            convert = getattr(module, "from_dlpack", None)
            if convert is not None:
                return convert
    return None
