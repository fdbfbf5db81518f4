#include "rendezvous/launchers/pmix_library.h"

#include <dlfcn.h>

#include <type_traits>
#include <vector>

namespace rondo::pmix {

Result<Library> Load(const std::string& name) {
  const std::vector<std::string> candidates =
      name.empty() ? std::vector<std::string>{"libpmix.so.2", "libpmix.so"} : std::vector<std::string>{name};
  void* handle = nullptr;
  std::string failures;
  for (const std::string& candidate : candidates) {
    handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL);  // RTLD_GLOBAL: libpmix's plug-ins need its symbols
    if (handle != nullptr) break;
    failures += fmt::format("{}{}", failures.empty() ? "" : "; ", dlerror());
  }
  if (handle == nullptr) {
    return Fail(ErrorCode::kUnsupported, "libpmix could not be loaded ({}); set RONDO_PMIX_LIBRARY to its path",
                failures);
  }
  Library library;
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    if (function == nullptr) missing = symbol;
  };
  find(library.init, "PMIx_Init");
  find(library.finalize, "PMIx_Finalize");
  find(library.put, "PMIx_Put");
  find(library.commit, "PMIx_Commit");
  find(library.get_nb, "PMIx_Get_nb");
  find(library.error_string, "PMIx_Error_string");
  if (missing != nullptr) {
    return Fail(ErrorCode::kUnsupported, "the loaded libpmix has no function {}", missing);
  }
  return library;
}

}  // namespace rondo::pmix
