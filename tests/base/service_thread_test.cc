#include "base/service_thread.h"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

namespace rondo {
namespace service_thread_test {

sigset_t Blocked() {
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, nullptr, &now);
  return now;
}

TEST_CASE("a service thread has its name and leaves signals to the application's threads") {
  const sigset_t before = Blocked();
  std::string name(16, '\0');
  sigset_t there{};
  StartServiceThread("rondo-test", [&] {
    pthread_getname_np(pthread_self(), name.data(), name.size());
    there = Blocked();
  }).join();
  CHECK(name.c_str() == std::string("rondo-test"));
  for (const int blocked : {SIGTERM, SIGINT, SIGUSR1, SIGALRM, SIGCHLD, SIGPIPE})
    CHECK(sigismember(&there, blocked) == 1);
  for (const int unblocked : {SIGSEGV, SIGBUS, SIGABRT, SIGPROF}) CHECK(sigismember(&there, unblocked) == 0);
  const sigset_t after = Blocked();
  for (int number = 1; number < 32; ++number) CHECK(sigismember(&after, number) == sigismember(&before, number));
}

}  // namespace service_thread_test
}  // namespace rondo
