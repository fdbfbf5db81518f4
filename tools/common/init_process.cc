#include "tools/common/init_process.h"

#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace rondo {
namespace {

bool InheritsOrphans() {
  int is_subreaper = 0;
  return ::getpid() == 1 || (::prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper) == 0 && is_subreaper != 0);
}

// Called when the worker has stopped. Stops this process, too, because a stop from the keyboard was meant for both.
void StopWith(pid_t worker, int signal) {
  if (signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU) return;
  if (::getpid() != 1) ::raise(SIGSTOP);  // process 1 does not stop, because nothing could continue it and the worker
  ::kill(worker, SIGCONT);
}

[[noreturn]] void End(int exit_code, bool was_in_foreground) {
  if (was_in_foreground) ::tcsetpgrp(STDIN_FILENO, ::getpgrp());  // SIGTTOU is blocked, so this does not stop us
  ::_exit(exit_code);
}

// Reaps all children that have ended. Ends this process if the worker is among them.
void Reap(pid_t worker, bool was_in_foreground) {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
    if (pid != worker) continue;
    if (WIFSTOPPED(status)) StopWith(worker, WSTOPSIG(status));
    if (WIFEXITED(status)) End(WEXITSTATUS(status), was_in_foreground);
    if (WIFSIGNALED(status)) End(128 + WTERMSIG(status), was_in_foreground);
  }
}

}  // namespace

void ServeAsInit() {
  if (!InheritsOrphans()) return;
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  ::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD were ignored, the kernel would reap our children and drop their exit status
  const bool in_foreground = ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
  const pid_t init = ::getpid();
  const pid_t worker = ::fork();
  if (worker <= 0) {  // if fork fails, this process does the work itself
    if (worker == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != init) ::_exit(1);
      ::setpgid(0, 0);
      if (in_foreground) ::tcsetpgrp(STDIN_FILENO, ::getpgrp());  // SIGTTOU is blocked, so this does not stop us
    }
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  while (true) {
    Reap(worker, in_foreground);
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&all, &info);
    if (signal > 0 && signal != SIGCHLD) ::kill(worker, signal);
  }
}

}  // namespace rondo
