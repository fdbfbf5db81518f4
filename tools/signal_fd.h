// The signals that concern who starts ranks, as a descriptor.
#pragma once

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "transport/fd.h"

namespace rondo {

// SIGCHLD, SIGINT, SIGTERM, SIGUSR1, and SIGHUP unless we were started with that ignored (nohup): blocked in this
// thread and all that it starts from now on. SIGPIPE is ignored. REQUIRES: made before any other thread; one per
// process.
class SignalFd {
 public:
  SignalFd() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGUSR1}) ::sigaddset(&set, signal);
    struct sigaction hangup {};
    // Of one that is blocked the kernel tells whether it is ignored or not.
    if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) ::sigaddset(&set, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);  // ignored, as some daemons leave it, it would mean that the kernel reaps our children
    fd_ = Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
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
