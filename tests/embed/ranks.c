#define _POSIX_C_SOURCE 200809L
#include "tests/embed/ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int here = -1;

void on_ranks(const char* what, int world_size, int victim, rank_function function) {
  static int times = 0;
  char url[512];
  const char* const folder = getenv("TEST_TMPDIR");
  snprintf(url, sizeof url, "file://%s/rendezvous.%d.%d", folder ? folder : "/tmp", (int)getpid(), ++times);
  pid_t ranks[64];
  fflush(NULL);
  for (int rank = 0; rank < world_size; ++rank) {
    ranks[rank] = fork();
    if (ranks[rank] < 0) {
      perror("fork");
      exit(1);
    }
    if (ranks[rank] == 0) {
      here = rank;
      alarm(120); /* ends a rank that hangs */
      function(rank, world_size, url);
      exit(0);
    }
  }
  int bad = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    int status = 0;
    waitpid(ranks[rank], &status, 0);
    const int good = rank == victim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                    : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!good) {
      fprintf(stderr, "rank %d: wait status 0x%x\n", rank, status);
      bad = 1;
    }
  }
  unlink(url + strlen("file://"));
  printf("%s   %s\n", bad ? "FAILED" : "passed", what);
  if (bad) exit(1);
}

rondo_comm* connect_ranks(int rank, int world_size, const char* url) {
  rondo_connect_options options;
  rondo_connect_options_init(&options);
  options.rendezvous = url;
  options.rank = rank;
  options.world_size = world_size;
  options.interface_ = "lo";
  options.rebuildable = 1;
  rondo_comm* comm = NULL;
  MUST(rondo_connect(&options, &comm, &error));
  CHECK(rondo_comm_rank(comm) == rank && rondo_comm_world_size(comm) == world_size);
  return comm;
}
