/* Rondo from C: every rank contributes its rank number, and every rank gets the sum.
 *
 *   make && rondo run -N 4 ./all_reduce
 */
#include <rondo.h>
#include <stdio.h>

int main(void) {
  rondo_comm* comm = NULL;
  rondo_error* error = NULL;
  if (rondo_connect(NULL, &comm, &error) != RONDO_OK) goto failed; /* NULL: env:// */

  const int64_t mine = rondo_comm_rank(comm);
  int64_t sum = 0;
  if (rondo_all_reduce(comm, &mine, &sum, 1, RONDO_INT64, RONDO_SUM, NULL, &error) != RONDO_OK) goto failed;
  if (rondo_comm_close(comm, &error) != RONDO_OK) goto failed;
  printf("rank %d of %d: the sum is %lld\n", rondo_comm_rank(comm), rondo_comm_world_size(comm), (long long)sum);
  rondo_comm_free(comm);
  return 0;

failed:
  fprintf(stderr, "%s\n", error->text);
  rondo_error_free(error);
  rondo_comm_free(comm);
  return 1;
}
