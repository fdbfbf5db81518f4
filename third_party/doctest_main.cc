// The one place where doctest itself is compiled, with the main() of every test.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iterator>
#include <set>

#if defined(__SANITIZE_THREAD__)
// glibc keeps the stacks of threads that have ended, and whichever thread drops one frees what the ended one had of a
// loaded library's thread_local objects. That comes after its end by a lock of glibc's, which the sanitizer cannot see.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:_dl_deallocate_tls\n";
}
#endif

namespace {

// Bazel starts a test that has a `shard_count` several times at once, each time for another part of its cases. Cases
// that wait then wait beside each other. doctest keeps cases in the order of their lines, so each part has some of
// every file.
void KeepOwnShard() {
  const char* total_text = std::getenv("TEST_TOTAL_SHARDS");
  const char* index_text = std::getenv("TEST_SHARD_INDEX");
  if (total_text == nullptr || index_text == nullptr) {
    return;
  }
  const int total = std::atoi(total_text);
  const int own = std::atoi(index_text);
  std::set<doctest::detail::TestCase>& cases = doctest::detail::getRegisteredTests();
  int number = 0;
  for (auto one = cases.begin(); one != cases.end(); ++number) {
    one = number % total == own ? std::next(one) : cases.erase(one);
  }
  // Some cases start this program again for one case by name, which may be of another part.
  unsetenv("TEST_TOTAL_SHARDS");
}

}  // namespace

int main(int argc, char** argv) {
  KeepOwnShard();
  return doctest::Context(argc, argv).run();
}
