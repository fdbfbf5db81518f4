"""librondo through ctypes: the structs, numbers and functions of rondo.h that this package uses."""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from . import _librondo

OK, INVALID_ARGUMENT, UNSUPPORTED, NOT_READY, TIMEOUT, PEER_LOST = 0, 1, 2, 3, 4, 5
MISMATCH, RENDEZVOUS_TIMEOUT, STORE_TIMEOUT, ABORTED, PEER_ABORTED = 9, 13, 16, 23, 24
SUM, PROD, MIN, MAX, AVG, PREMUL_SUM = 1, 2, 3, 4, 5, 9
UINT8, INT64 = 2, 5
# The values of rondo_dtype, by NumPy's names.
DTYPES = {"int8": 1, "uint8": UINT8, "int32": 3, "uint32": 4, "int64": INT64, "uint64": 6, "float16": 7, "bfloat16": 8,
          "float32": 9, "float64": 10, "bool": 11}  # fmt: skip


class Error(ctypes.Structure):
    _fields_ = [
        ("code", c_int32), ("rank", c_int32), ("culprit", c_int32), ("step", c_int64), ("sequence", c_uint64),
        ("bytes_done", c_uint64), ("bytes_due", c_uint64), ("text", c_char_p), ("message", c_char_p), ("host", c_char_p),
        ("address", c_char_p), ("interface_", c_char_p), ("collective", c_char_p), ("first_cause", c_char_p),
    ]  # fmt: skip


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("timeout_ms", c_uint64), ("algorithm", c_char_p), ("scale", c_double), ("reproducible", c_int32),
        ("fp32_accumulate", c_int32), ("compare_results", c_int32), ("memory", c_int32), ("stream", c_void_p),
        ("stream_waits", c_int32),
    ]  # fmt: skip


class ConnectOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("rendezvous", c_char_p), ("rank", c_int32), ("world_size", c_int32), ("store", c_void_p),
        ("job", c_char_p), ("token", c_char_p), ("generation", c_uint64), ("external_store", c_int), ("addresses", c_char_p),
        ("interface_", c_char_p), ("transport", c_char_p), ("rdma_port", c_char_p), ("timeout_ms", c_uint64),
        ("rails", c_uint32), ("progress_thread", c_int), ("checksums", c_int), ("reproducible", c_int),
        ("fp32_accumulate", c_int), ("compare_results", c_int), ("rebuildable", c_int), ("join", c_int),
        ("recorded_operations", c_uint32), ("record_dir", c_char_p), ("log", c_void_p), ("log_user", c_void_p),
        ("group", c_char_p), ("job_ranks", POINTER(c_int32)),
        ("ports", c_char_p),
    ]  # fmt: skip


class FusionOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("bucket_bytes", c_uint64), ("buckets", c_uint32), ("operation", POINTER(Options))]


class Bytes(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


STRUCTS = {"rondo_error": Error, "rondo_options": Options, "rondo_connect_options": ConnectOptions,
           "rondo_fusion_options": FusionOptions, "rondo_bytes": Bytes}  # fmt: skip

ErrorPointer = POINTER(Error)
_ERROR, _WORK, _OPTIONS, _COUNTS = POINTER(ErrorPointer), POINTER(c_void_p), POINTER(Options), POINTER(c_uint64)
_ASYNC = [_OPTIONS, _WORK, _ERROR]  # the last arguments of every asynchronous collective
_INIT = [c_void_p, c_size_t]
_FUNCTIONS = {
    "rondo_version": (c_char_p, []),
    "rondo_code_name": (c_char_p, [c_int32]),
    "rondo_error_free": (None, [ErrorPointer]),
    "rondo_options_init_sized": (None, _INIT),
    "rondo_connect_options_init_sized": (None, _INIT),
    "rondo_fusion_options_init_sized": (None, _INIT),
    "rondo_connect": (c_int32, [POINTER(ConnectOptions), POINTER(c_void_p), _ERROR]),
    "rondo_comm_free": (None, [c_void_p]),
    "rondo_comm_close": (c_int32, [c_void_p, _ERROR]),
    "rondo_comm_leave": (c_int32, [c_void_p, c_uint64, _ERROR]),
    "rondo_comm_abort": (None, [c_void_p, c_char_p]),
    "rondo_comm_note_refusal": (None, [c_void_p, c_char_p]),
    "rondo_comm_failure": (c_int32, [c_void_p, _ERROR]),
    "rondo_comm_rank": (c_int32, [c_void_p]),
    "rondo_comm_world_size": (c_int32, [c_void_p]),
    "rondo_comm_host": (c_char_p, [c_void_p, c_int32]),
    "rondo_comm_local_rank": (c_int32, [c_void_p]),
    "rondo_comm_local_size": (c_int32, [c_void_p]),
    "rondo_comm_describe": (c_int32, [c_void_p, POINTER(Bytes), _ERROR]),
    "rondo_bytes_free": (None, [POINTER(Bytes)]),
    "rondo_work_wait_for": (c_int32, [c_void_p, c_uint64, _ERROR]),
    "rondo_work_test": (c_int32, [c_void_p, _ERROR]),
    "rondo_work_free": (None, [c_void_p]),
    "rondo_all_reduce_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_uint64, c_int32, c_int32, *_ASYNC]),
    "rondo_broadcast_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_uint64, c_int32, c_int32, *_ASYNC]),
    "rondo_all_gather_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_uint64, c_int32, *_ASYNC]),
    "rondo_all_gather_v_async": (c_int32, [c_void_p, c_void_p, c_void_p, _COUNTS, c_int32, *_ASYNC]),
    "rondo_reduce_scatter_v_async": (c_int32, [c_void_p, c_void_p, c_void_p, _COUNTS, c_int32, c_int32, *_ASYNC]),
    "rondo_all_to_all_async": (c_int32, [c_void_p, c_void_p, c_void_p, c_uint64, c_int32, *_ASYNC]),
    "rondo_all_to_all_v_async": (c_int32, [c_void_p, c_void_p, _COUNTS, c_void_p, _COUNTS, c_int32, *_ASYNC]),
    "rondo_barrier_async": (c_int32, [c_void_p, *_ASYNC]),
    "rondo_fusion_create": (c_int32, [c_void_p, POINTER(FusionOptions), POINTER(c_void_p), _ERROR]),
    "rondo_fusion_add": (c_int32, [c_void_p, c_void_p, c_void_p, c_uint64, c_int32, c_int32, c_double, _ERROR]),
    "rondo_fusion_wait_for": (c_int32, [c_void_p, c_uint64, _ERROR]),
    "rondo_fusion_await_room": (c_int32, [c_void_p, c_uint64, _ERROR]),
    "rondo_fusion_free": (None, [c_void_p]),
}


def _load():
    library = _librondo.load(Path(__file__).with_name(_librondo.NAME), _FUNCTIONS)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()


def defaults(struct):
    """A struct of options with the defaults of its rondo_..._init_sized."""
    options = struct()
    name = next(name for name, known in STRUCTS.items() if known is struct)
    getattr(lib, f"{name}_init_sized")(byref(options), ctypes.sizeof(options))
    return options
