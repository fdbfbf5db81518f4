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

// Of the worker only: whoever stopped it by the keyboard meant this process, too.
void StopWith(pid_t worker, int signal) {
  if (signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU) return;
  if (::getpid() != 1) ::raise(SIGSTOP);  // process 1 cannot be stopped, and nobody could continue the worker
  ::kill(worker, SIGCONT);
}

[[noreturn]] void End(int exit_code, bool was_in_foreground) {
  if (was_in_foreground) ::tcsetpgrp(STDIN_FILENO, ::getpgrp());  // with SIGTTOU blocked
  ::_exit(exit_code);
}

// Reaps whatever has ended; ends this process when the worker has.
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
  ::signal(SIGCHLD,
           SIG_DFL);  // ignored, it would mean that the kernel reaps our children, and keeps what became of them
  const bool in_foreground = ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
  const pid_t init = ::getpid();
  const pid_t worker = ::fork();
  if (worker <= 0) {  // where no process is to be had, this one works without
    if (worker == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != init) ::_exit(1);
      ::setpgid(0, 0);
      if (in_foreground) ::tcsetpgrp(STDIN_FILENO, ::getpgrp());  // with SIGTTOU blocked
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
