/* Ranks for tests of the C interface: child processes, each of which runs one function. C11. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/rondo.h"

/* Ends the rank with a message if the condition does not hold. */
#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "%s:%d: rank %d: not so: %s\n", __FILE__, __LINE__, here, #condition); \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

/* `call` has &error as its final argument. It must return RONDO_OK. */
#define MUST(call)                                                                                             \
  do {                                                                                                         \
    rondo_error* error = NULL;                                                                                 \
    if ((call) != RONDO_OK) {                                                                                  \
      fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, here, #call, error ? error->text : "?"); \
      exit(1);                                                                                                 \
    }                                                                                                          \
    CHECK(error == NULL);                                                                                      \
  } while (0)

/* `call` must fail with the code `wanted` and a message that contains `words`. */
#define FAILS(call, wanted, words)                                                                            \
  do {                                                                                                        \
    rondo_error* error = NULL;                                                                                \
    const rondo_code code = (call);                                                                           \
    if (code != (wanted) || error == NULL || error->code != code || !strstr(error->text, (words))) {          \
      fprintf(stderr, "%s:%d: rank %d: %s: %s instead of %s and '%s': %s\n", __FILE__, __LINE__, here, #call, \
              rondo_code_name(code), rondo_code_name(wanted), (words), error ? error->text : "no error");     \
      exit(1);                                                                                                \
    }                                                                                                         \
    rondo_error_free(error);                                                                                  \
  } while (0)

extern int here; /* this process's rank; -1 in the parent */

typedef void (*rank_function)(int rank, int world_size, const char* url);

/* Runs `function` in `world_size` processes. They get the URL of a rendezvous that is new for each call. Every process
 * must exit with 0, except `victim`, which must die by SIGKILL (-1: no victim). */
void on_ranks(const char* what, int world_size, int victim, rank_function function);

/* Connects this rank to the other ranks. */
rondo_comm* connect_ranks(int rank, int world_size, const char* url);
