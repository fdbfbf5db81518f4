// Declares the part of PMIx's binary interface that Rondo calls, and loads the library at run time. So Rondo can be
// built without PMIx. The PMIx Standard (version 4.0, "Data structures and types") fixes these layouts, which have been
// the same since version 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace rondo::pmix {

using StatusCode = int;
inline constexpr StatusCode kSuccess = 0;
inline constexpr StatusCode kNotFound = -46;  // PMIX_ERR_NOT_FOUND
// PMIX_ERR_TIMEOUT: the value that the server waited for was not put in time.
inline constexpr StatusCode kTimeout = -24;
inline constexpr std::uint8_t kGlobalScope = 3;  // PMIX_GLOBAL: for processes on this host and on others
inline constexpr std::uint16_t kStringType = 3;  // PMIX_STRING

struct Process {  // pmix_proc_t
  char nspace[256];
  std::uint32_t rank;
};

struct Value {  // pmix_value_t
  std::uint16_t type;
  union {
    char* string;
    std::uint64_t room[4];  // at least the size of PMIx's union, whose largest members have three pointers
  } data;
};

using ValueCallback = void (*)(StatusCode status, Value* value, void* context);

// Rondo passes no `info` arrays.
using Init = StatusCode (*)(Process* self, void* info, std::size_t infos);                             // PMIx_Init
using Finalize = StatusCode (*)(const void* info, std::size_t infos);                                  // PMIx_Finalize
using Put = StatusCode (*)(std::uint8_t scope, const char* key, Value* value);                         // PMIx_Put
using Commit = StatusCode (*)();                                                                       // PMIx_Commit
using GetNb = StatusCode (*)(const Process* of, const char* key, const void* info, std::size_t infos,  // PMIx_Get_nb
                             ValueCallback callback, void* context);
using ErrorString = const char* (*)(StatusCode status);  // PMIx_Error_string

// The loaded functions. The library is never unloaded, because its own thread may still run in it.
struct Library {
  pmix::Init init = nullptr;
  pmix::Finalize finalize = nullptr;
  pmix::Put put = nullptr;
  pmix::Commit commit = nullptr;
  pmix::GetNb get_nb = nullptr;
  pmix::ErrorString error_string = nullptr;
};

// `name` "" means the usual names. kUnsupported says why the library cannot be loaded, or which function it lacks.
Result<Library> Load(const std::string& name);

}  // namespace rondo::pmix
