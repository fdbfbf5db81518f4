// The one place where doctest itself is compiled, with the main() of every test: 5 s under -O3, 8 s under the
// sanitizers, which each of a hundred tests paid for when it had a copy of its own.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#if defined(__SANITIZE_THREAD__)
// glibc keeps the stacks of threads that have ended, and whichever thread drops one frees what the ended one had of a
// loaded library's thread_local objects. That comes after its end by a lock of glibc's, which the sanitizer cannot see.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:_dl_deallocate_tls\n";
}
#endif
