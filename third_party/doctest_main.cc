// This is the only file that compiles doctest itself. It contains the main() of every test.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iterator>
#include <set>

#if defined(__SANITIZE_THREAD__)
// Suppresses a false report of ThreadSanitizer. glibc keeps the stacks of ended threads. A thread that later frees such
// a stack also frees the ended thread's thread_local objects of loaded libraries. A lock inside glibc ensures that the
// thread has ended by then, but the sanitizer cannot see this lock.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:_dl_deallocate_tls\n";
}
#endif

namespace {

// Bazel starts a test with a `shard_count` several times at once, each time for another part of its cases. So cases
// that wait can wait at the same time. doctest orders cases by file and line, and parts take the cases in turn, so each
// part has some cases of every file.
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
  // Some cases start this program again to run a single case by its name. That case may belong to another part, so the
  // child must not select a part.
  unsetenv("TEST_TOTAL_SHARDS");
}

}  // namespace

int main(int argc, char** argv) {
  KeepOwnShard();
  return doctest::Context(argc, argv).run();
}
