// The signals that concern who starts ranks, as a descriptor.
#pragma once

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "base/net/fd.h"

namespace rondo {

// SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2, and SIGHUP unless we were started with that
// ignored (nohup): blocked in this thread and all that it starts from now on. So is SIGTTIN, which never comes: a read
// from the terminal fails instead. SIGPIPE is ignored. REQUIRES: made before any other thread; one per process.
class SignalFd {
 public:
  SignalFd() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2, SIGTTIN})
      ::sigaddset(&set, signal);
    struct sigaction hangup {};
    // Of one that is blocked the kernel tells whether it is ignored or not.
    if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) ::sigaddset(&set, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);  // ignored, as some daemons leave it, it would mean that the kernel reaps our children
    fd_ = Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  }

  // Whether the signal asks for an end.
  static bool IsInterrupt(int signal) {
    return signal == SIGINT || signal == SIGQUIT || signal == SIGTERM || signal == SIGHUP;
  }
  // What SIGTSTP does by itself: returns when somebody has continued this process; at once where nobody could, for no
  // shell watches over it.
  static void Stop() {
    sigset_t stop;
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGTSTP);
    ::raise(SIGTSTP);
    ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
    ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  }

  int get() const { return fd_.get(); }
  // The next one that came, 0 when none did.
  int Next() const {
    signalfd_siginfo info;
    return ::read(get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  Fd fd_;
};

}  // namespace rondo
