// Makes the signals that a launcher must handle readable from a file descriptor.
#pragma once

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "base/net/fd.h"

namespace rondo {

// Blocks these signals in this thread and in all threads and processes that it starts later: SIGCHLD, SIGINT, SIGQUIT,
// SIGTERM, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2, and SIGHUP unless it is ignored (nohup). SIGTTIN is also blocked, but is
// never delivered. Instead, a read from the terminal fails with EIO. SIGPIPE is ignored. REQUIRES: made before any
// other thread; one per process.
class SignalFd {
 public:
  SignalFd() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2, SIGTTIN})
      ::sigaddset(&set, signal);
    struct sigaction hangup {};
    // An ignored SIGHUP is not blocked: if it were, the kernel would deliver it to the descriptor although it is
    // ignored.
    if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) ::sigaddset(&set, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    // Some daemons start programs with SIGCHLD ignored, and then the kernel would reap our children.
    ::signal(SIGCHLD, SIG_DFL);
    fd_ = Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  }

  // Whether the signal asks this process to end.
  static bool IsInterrupt(int signal) {
    return signal == SIGINT || signal == SIGQUIT || signal == SIGTERM || signal == SIGHUP;
  }
  // Stops this process as SIGTSTP does by default. Returns when SIGCONT has continued it. If no shell could continue it
  // (the process group is orphaned), returns at once without stopping.
  static void Stop() {
    sigset_t stop;
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGTSTP);
    ::raise(SIGTSTP);
    ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
    ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  }

  int get() const { return fd_.get(); }
  // The number of the next pending signal; 0 if there is none.
  int Next() const {
    signalfd_siginfo info;
    return ::read(get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  Fd fd_;
};

}  // namespace rondo
