"""What is particular to arrays of other libraries: values that they keep aside, arrays that never change, and how new memory
becomes an array of theirs."""

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
    """The top-level modules of its type and of the types below it."""
    tops = (kind.__module__.partition(".")[0] for kind in type(array).__mro__)
    return [top for top in dict.fromkeys(tops) if top not in ("builtins", "__main__", "abc", "typing")]


def is_immutable(array):
    return not IMMUTABLE.isdisjoint(_names(array))


def check_exportable(array):
    """TypeError for elements that have no form in DLPack. TensorFlow ends the process when tensors of strings, variants or resources
    are exported, so they are refused by the name of their type before that."""
    dtype = getattr(getattr(array, "dtype", None), "name", None)
    if "tensorflow" in _names(array) and isinstance(dtype, str) and not _NUMBERS.fullmatch(dtype):
        raise TypeError(f"Rondo takes TensorFlow's numbers and bool, not {dtype}; allgather_object and broadcast_object take other objects")


def resolved(array):
    """An array of the same values whose memory holds them as they are. torch keeps aside that a view is conjugated or negated,
    and exports the memory below it without a word; and it has zeros that have no memory. The array itself where nothing is
    kept aside."""
    for is_so, resolve in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg"), ("_is_zerotensor", "clone")):
        if callable(getattr(array, is_so, None)) and getattr(array, is_so)():
            array = getattr(array, resolve)()
    return array


def adopt(result, like, dtype):
    """`result`, a new NumPy array that has no other owner, as an array of the library that `like` is of. `dtype`: what the type of its
    elements is called; NumPy may lack it, and has them as integers then. NumPy's where the library takes no memory of others."""
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
