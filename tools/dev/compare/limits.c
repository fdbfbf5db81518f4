/*
 * limits - measures the highest speed that this machine's sockets, memory and CPU cores reach.
 *   limits stream   tcp|unix CC one|duplex|duplex2 WRITE_BYTES SECONDS [BUFFER_BYTES]
 *   limits pingpong tcp|unix CC block|spin
 *   limits shm                 (two processes spinning on shared cache lines)
 *   limits switch              (two processes on ONE cpu: yield, futex; two cpus: futex)
 *   limits copy|sum|thpcopy|thpsum THREADS BYTES_PER_BUFFER    (thp: on transparent huge pages)
 *   limits cma      one|both BYTES
 *   limits floor    BYTES      (the least time of an all_reduce of that many bytes between two ranks)
 * CC is a TCP congestion control or "-". Processes are pinned to cpus 0 and 1.
 * Each process reads and writes a buffer of BUFFER_BYTES (default WRITE_BYTES) piece by piece.
 * one: A writes to B; duplex: both ways on one socket; duplex2: on two sockets.
 * GB = 1e9 bytes. A rate is for one direction; with several threads it is the sum of their rates.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define LINE 64
struct shared { /* one page shared by the processes of a test */
  _Alignas(LINE) atomic_int a;
  _Alignas(LINE) atomic_int b;
  _Alignas(LINE) atomic_int ready;
  _Alignas(LINE) atomic_int stop;
  _Alignas(LINE) double result[2];
  void* buffer[2];
  pid_t pid[2];
};
static struct shared* sh;

static void die(const char* what) {
  perror(what);
  exit(1);
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
}

static int by_value(const void* x, const void* y) {
  const double a = *(const double*)x, b = *(const double*)y;
  return (a > b) - (a < b);
}

static void meet(void) { /* a barrier: waits until both processes have called it */
  atomic_fetch_add(&sh->ready, 1);
  while (atomic_load(&sh->ready) < 2) sched_yield();
}

/* ---- sockets ---------------------------------------------------------- */

static void connected_pair(const char* kind, const char* cc, int out[2]) {
  if (strcmp(kind, "unix") == 0) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, out)) die("socketpair");
    return;
  }
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (void*)&at, len) || listen(listener, 1)) die("listen");
  getsockname(listener, (void*)&at, &len);
  out[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(out[0], (void*)&at, len)) die("connect");
  out[1] = accept(listener, NULL, NULL);
  close(listener);
  for (int i = 0; i < 2; i++) {
    const int yes = 1;
    setsockopt(out[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (cc[0] != '-' && setsockopt(out[i], IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc))) die("TCP_CONGESTION");
  }
}

/* Moves bytes until sh->stop is set. Returns the rate of bytes received after the warm-up, in GB/s. */
static double move(int tx, int rx, size_t chunk, size_t buffer, double seconds) {
  char *src = malloc(buffer), *dst = malloc(buffer);
  memset(src, 1, buffer);
  memset(dst, 1, buffer);
  size_t sent = 0, got = 0, part = 0;
  double begin = now(), start = 0;
  while (!atomic_load_explicit(&sh->stop, memory_order_relaxed)) {
    int moved = 0;
    if (tx >= 0) {
      const ssize_t k = write(tx, src + sent, chunk < buffer - sent ? chunk : buffer - sent);
      if (k > 0)
        sent = (sent + (size_t)k) % buffer, moved = 1;
      else if (k < 0 && errno != EAGAIN)
        break;
    }
    if (rx >= 0) {
      const ssize_t k = read(rx, dst + part, chunk < buffer - part ? chunk : buffer - part);
      if (k > 0)
        part = (part + (size_t)k) % buffer, got += (size_t)k, moved = 1;
      else if (k == 0 || errno != EAGAIN)
        break;
    }
    const double t = now();
    if (start == 0 && t - begin > 0.5) start = t, got = 0;
    if (start != 0 && t - start > seconds) atomic_store(&sh->stop, 1);
    if (!moved) {
      struct pollfd p[2] = {{.fd = tx, .events = POLLOUT}, {.fd = rx, .events = POLLIN}};
      if (tx == rx) p[0].events = POLLIN | POLLOUT, p[1].fd = -1;
      poll(p, 2, 50);
    }
  }
  return (double)got / (now() - start) * 1e-9;
}

static void stream(const char* kind, const char* cc, const char* way, size_t chunk, size_t buffer, double seconds) {
  int x[2], y[2];
  connected_pair(kind, cc, x);
  connected_pair(kind, cc, y);
  const int both = way[0] == 'd', two = strcmp(way, "duplex2") == 0;
  if (both)
    for (int i = 0; i < 2; i++) fcntl(x[i], F_SETFL, O_NONBLOCK), fcntl(y[i], F_SETFL, O_NONBLOCK);
  for (int i = 0; i < 2; i++)
    if (fork() == 0) {
      close(x[!i]);
      close(y[!i]);
      pin(i);
      meet();
      const int tx = both ? x[i] : i == 0 ? x[0] : -1;
      const int rx = both ? (two ? y[i] : x[i]) : i == 1 ? x[1] : -1;
      /* two sockets: A sends on x and receives on y; B sends on y and receives on x */
      if (two && i == 1)
        sh->result[i] = move(y[1], x[1], chunk, buffer, seconds);
      else
        sh->result[i] = move(tx, rx, chunk, buffer, seconds);
      shutdown(x[i], SHUT_RDWR);
      shutdown(y[i], SHUT_RDWR);
      _exit(0);
    }
  close(x[0]), close(x[1]), close(y[0]), close(y[1]);
  while (wait(NULL) > 0) {
  }
  const double rate = both ? 0.5 * (sh->result[0] + sh->result[1]) : sh->result[1];
  printf("stream %-4s %-5s %-7s %8zu of %9zu B  %7.3f GB/s per direction\n", kind, cc, way, chunk, buffer, rate);
}

static void one_way(int fd, int spin, char* c, int sending) {
  ssize_t k;
  do k = sending ? send(fd, c, 1, MSG_NOSIGNAL) : recv(fd, c, 1, spin ? MSG_DONTWAIT : 0);
  while (k < 0 && errno == EAGAIN);
  if (k != 1) exit(1);
}

static void pingpong(const char* kind, const char* cc, int spin) {
  enum { N = 30000, WARM = 2000 };
  int fd[2];
  connected_pair(kind, cc, fd);
  char c = 0;
  if (fork() == 0) {
    pin(1);
    for (int i = 0; i < N + WARM; i++) one_way(fd[1], spin, &c, 0), one_way(fd[1], spin, &c, 1);
    _exit(0);
  }
  pin(0);
  double* rtt = malloc(sizeof(double) * N);
  for (int i = -WARM; i < N; i++) {
    const double t = now();
    one_way(fd[0], spin, &c, 1);
    one_way(fd[0], spin, &c, 0);
    if (i >= 0) rtt[i] = (now() - t) * 1e6;
  }
  wait(NULL);
  qsort(rtt, N, sizeof(double), by_value);
  printf("pingpong %-4s %-5s %-5s  rtt us: min %.2f median %.2f p99 %.2f\n", kind, cc, spin ? "spin" : "block", rtt[0],
         rtt[N / 2], rtt[N * 99 / 100]);
}

/* ---- shared memory and switches ---------------------------------------- */

enum wait_kind { SPIN, YIELD, FUTEX };

static void await(atomic_int* v, int want, enum wait_kind k) {
  int seen;
  while ((seen = atomic_load_explicit(v, memory_order_acquire)) != want) {
    if (k == SPIN)
      relax();
    else if (k == YIELD)
      sched_yield();
    else
      syscall(SYS_futex, v, FUTEX_WAIT, seen, NULL, NULL, 0);
  }
}

static void signal_to(atomic_int* v, int value, enum wait_kind k) {
  atomic_store_explicit(v, value, memory_order_release);
  if (k == FUTEX) syscall(SYS_futex, v, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void flags(const char* name, enum wait_kind k, int cpu_a, int cpu_b) {
  enum { BATCHES = 200 };
  const int batch = k == SPIN ? 2000 : 200;
  double t[BATCHES];
  atomic_store(&sh->a, 0), atomic_store(&sh->b, 0);
  if (fork() == 0) {
    pin(cpu_b);
    for (int i = 1; i <= BATCHES * batch; i++) await(&sh->a, i, k), signal_to(&sh->b, i, k);
    _exit(0);
  }
  pin(cpu_a);
  for (int n = 0, i = 1; n < BATCHES; n++) {
    const double start = now();
    for (int j = 0; j < batch; j++, i++) signal_to(&sh->a, i, k), await(&sh->b, i, k);
    t[n] = (now() - start) / batch * 1e6;
  }
  wait(NULL);
  qsort(t, BATCHES, sizeof(double), by_value);
  printf("%-28s rtt us: min %.3f median %.3f p99 %.3f\n", name, t[0], t[BATCHES / 2], t[BATCHES * 99 / 100]);
}

/* ---- memory ------------------------------------------------------------ */

/* a += b; the compiler vectorizes this loop with the widest registers */
static void sum_into(float* restrict a, const float* restrict b, size_t n) {
  for (size_t i = 0; i < n; i++) a[i] += b[i];
}

struct job {
  const char* what;
  int cpu;
  size_t bytes;
  double rate;
};
static pthread_barrier_t line_up;

static float* floats(size_t bytes, int thp) {
  float* p = mmap(NULL, bytes + (2u << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) die("mmap");
  p = (float*)(((uintptr_t)p + (2u << 20) - 1) & ~(uintptr_t)((2u << 20) - 1));
  if (thp) madvise(p, bytes, MADV_HUGEPAGE);
  memset(p, 0, bytes);
  return p;
}

static void* work(void* arg) {
  struct job* j = arg;
  pin(j->cpu);
  const int thp = strncmp(j->what, "thp", 3) == 0;
  const char* what = j->what + (thp ? 3 : 0);
  float *a = floats(j->bytes, thp), *b = floats(j->bytes, thp);
  const size_t n = j->bytes / 4;
  int reps = (int)((64u << 20) / j->bytes) + 1;
  enum { SAMPLES = 25 };
  double rate[SAMPLES];
  for (int s = -2; s < SAMPLES; s++) {
    pthread_barrier_wait(&line_up);
    const double t = now();
    for (int r = 0; r < reps; r++) {
      if (strcmp(what, "sum") == 0)
        sum_into(a, b, n);
      else
        memcpy(a, b, j->bytes);
      __asm__ volatile("" ::: "memory");
    }
    if (s >= 0) rate[s] = (double)j->bytes * reps / (now() - t) * 1e-9;
  }
  qsort(rate, SAMPLES, sizeof(double), by_value);
  j->rate = rate[SAMPLES / 2];
  return NULL;
}

static void memory(const char* what, int threads, size_t bytes) {
  struct job j[2];
  pthread_t t[2];
  pthread_barrier_init(&line_up, NULL, (unsigned)threads);
  for (int i = 0; i < threads; i++) {
    j[i] = (struct job){what, i, bytes, 0};
    pthread_create(&t[i], NULL, work, &j[i]);
  }
  double total = 0;
  for (int i = 0; i < threads; i++) pthread_join(t[i], NULL), total += j[i].rate;
  printf("%-8s %d thread(s) %10zu B per buffer  %7.2f GB/s in all\n", what, threads, bytes, total);
}

/* ---- the floor of an all_reduce in shared memory ------------------------ */

/* Two threads do at the same time the work of two ranks. As with two ranks, data that a thread has read or written is
   in the caches of that thread's CPU core. There are three groups of methods:

     Slots (plain buffers): each thread copies half of its input to its slot. It sums its other half with the other
     thread's slot into a result slot. Then it copies both result slots to its output.

     Read (plain buffers): each thread copies half of the other thread's input to a slot, which stays in its own cache.
     It sums this slot with its own input into its output. It copies the other half of the result from the other
     thread's output.

     Mapped (allocated buffers): each thread sums half of both inputs directly into its output. It copies the other half
     of the result from the other thread's output.

   Copies to the output use plain or non-temporal stores. The result is the time of the fastest method and sample. */
enum { SLOT = 64 << 10, FLOOR_SAMPLES = 41 };
struct vectors {
  float *in, *out, *slot, *result;
};
static struct vectors of_thread[2];

static void copy_out(char* out, const char* slot, size_t n, int streaming) {
#if defined(__x86_64__)
  if (streaming) {
    for (size_t i = 0; i + 16 <= n; i += 16)
      _mm_stream_si128((__m128i*)(out + i), _mm_load_si128((const __m128i*)(slot + i)));
    return;
  }
#endif
  (void)streaming;
  memcpy(out, slot, n);
}

/* Moves one piece through slots. `mine` and `theirs` are its offsets in the two halves. */
static void through_slots(int self, size_t mine, size_t theirs, size_t n, int streaming) {
  const struct vectors own = of_thread[self], other = of_thread[1 - self];
  memcpy(own.slot, (char*)own.in + theirs, n);
  __asm__ volatile("" ::: "memory");
  const float* summand = own.in + mine / 4;
  for (size_t i = 0; i < n / 4; i++) own.result[i] = other.slot[i] + summand[i];
  __asm__ volatile("" ::: "memory");
  copy_out((char*)own.out + mine, (const char*)own.result, n, streaming);
  copy_out((char*)own.out + theirs, (const char*)other.result, n, streaming);
  __asm__ volatile("" ::: "memory");
}

static void fold_read(int self, size_t mine, size_t n) {
  const struct vectors own = of_thread[self], other = of_thread[1 - self];
  memcpy(own.slot, (const char*)other.in + mine, n);
  __asm__ volatile("" ::: "memory");
  const float* summand = own.in + mine / 4;
  float* sum = own.out + mine / 4;
  for (size_t i = 0; i < n / 4; i++) sum[i] = own.slot[i] + summand[i];
  __asm__ volatile("" ::: "memory");
}

static void fold_mapped(int self, size_t mine, size_t n) {
  const struct vectors own = of_thread[self], other = of_thread[1 - self];
  const float *left = own.in + mine / 4, *right = other.in + mine / 4;
  float* sum = own.out + mine / 4;
  for (size_t i = 0; i < n / 4; i++) sum[i] = left[i] + right[i];
  __asm__ volatile("" ::: "memory");
}

static void take(int self, size_t theirs, size_t n, int streaming) {
  const struct vectors own = of_thread[self], other = of_thread[1 - self];
  copy_out((char*)own.out + theirs, (const char*)other.out + theirs, n, streaming);
  __asm__ volatile("" ::: "memory");
}

/* Waits for the other thread. Spins, because waking a sleeping thread would take about a tenth of the measured time. */
static void side_by_side(void) {
  static atomic_int arrived;
  const int pair = atomic_fetch_add(&arrived, 1) / 2;
  while (atomic_load_explicit(&arrived, memory_order_acquire) < 2 * (pair + 1)) relax();
}

/* Both threads run at about the same speed, so take() reads data that was just written. The values are not checked. */
enum { SLOTS, READ_BY_TURNS, READ_FOLD_FIRST, MAPPED_BY_TURNS, MAPPED_FOLD_FIRST, WAYS };
static void go(int way, int self, size_t bytes, int streaming) {
  const size_t half = bytes / 2;
  const int fold_first = way == READ_FOLD_FIRST || way == MAPPED_FOLD_FIRST;
  for (int pass = 0; pass <= fold_first; pass++) {
    if (pass == 1) side_by_side();
    for (size_t at = 0; at < half; at += SLOT) {
      const size_t n = half - at < SLOT ? half - at : SLOT;
      const size_t mine = (size_t)self * half + at, theirs = (size_t)(1 - self) * half + at;
      if (way == SLOTS) {
        through_slots(self, mine, theirs, n, streaming);
        continue;
      }
      if (pass == 0) (way == READ_BY_TURNS || way == READ_FOLD_FIRST ? fold_read : fold_mapped)(self, mine, n);
      if (pass == 1 || !fold_first) take(self, theirs, n, streaming);
    }
  }
}

/* Short runs vary more, so they get more samples. */
static int floor_samples(size_t bytes) { return bytes <= (16u << 20) ? FLOOR_SAMPLES : 9; }

static double floor_us[WAYS][2][2][FLOOR_SAMPLES]; /* by way, streaming, thread */

static void* floor_of_one(void* arg) {
  struct job* j = arg;
  pin(j->cpu);
  of_thread[j->cpu] = (struct vectors){floats(j->bytes, 0), floats(j->bytes, 0), floats(SLOT, 0), floats(SLOT, 0)};
  for (int way = 0; way < WAYS; way++)
    for (int streaming = 0; streaming < 2; streaming++)
      for (int s = -1; s < floor_samples(j->bytes); s++) {
        side_by_side();
        const double t = now();
        go(way, j->cpu, j->bytes, streaming);
        if (s >= 0) floor_us[way][streaming][j->cpu][s] = (now() - t) * 1e6;
      }
  return NULL;
}

/* The time of the fastest sample. The time of a sample is that of its slower thread. */
static double fastest(int way, size_t bytes) {
  double least = 1e99;
  for (int streaming = 0; streaming < 2; streaming++)
    for (int s = 0; s < floor_samples(bytes); s++) {
      const double a = floor_us[way][streaming][0][s], b = floor_us[way][streaming][1][s];
      const double us = a > b ? a : b;
      if (us < least) least = us;
    }
  return least;
}

static void memory_floor(size_t bytes) {
  static const char* const names[WAYS] = {"through slots", "read by turns", "read, folded first", "mapped by turns",
                                          "mapped, folded first"};
  struct job j[2];
  pthread_t t[2];
  for (int i = 0; i < 2; i++) {
    j[i] = (struct job){"floor", i, bytes, 0};
    pthread_create(&t[i], NULL, floor_of_one, &j[i]);
  }
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  double plain = 1e99, allocated = 1e99;
  for (int way = 0; way < WAYS; way++) {
    const double us = fastest(way, bytes);
    printf("floor    2 thread(s) %10zu B per buffer  %-20s %.1f us\n", bytes, names[way], us);
    double* const least = way < MAPPED_BY_TURNS ? &plain : &allocated;
    if (us < *least) *least = us;
  }
  printf("floor    2 thread(s) %10zu B per buffer  all_reduce of plain buffers at least %.1f us\n", bytes, plain);
  printf("floor    2 thread(s) %10zu B per buffer  all_reduce of allocated buffers at least %.1f us\n", bytes,
         allocated);
}

/* ---- cross-memory attach ------------------------------------------------ */

static void cma(int both, size_t bytes) {
  for (int i = 0; i < 2; i++)
    if (fork() == 0) {
      pin(i);
      char *own = (char*)floats(bytes, 0), *dst = (char*)floats(bytes, 0);
      sh->buffer[i] = own, sh->pid[i] = getpid();
      meet();
      const int reps = (int)((64u << 20) / bytes) + 1;
      double rate[15];
      for (int s = -2; s < 15 && (both || i == 0); s++) {
        const double t = now();
        for (int r = 0; r < reps; r++) {
          struct iovec l = {dst, bytes}, m = {sh->buffer[!i], bytes};
          for (size_t done = 0; done < bytes;) {
            const ssize_t k = process_vm_readv(sh->pid[!i], &l, 1, &m, 1, 0);
            if (k <= 0) die("process_vm_readv");
            done += (size_t)k;
            l = (struct iovec){dst + done, bytes - done};
            m = (struct iovec){(char*)sh->buffer[!i] + done, bytes - done};
          }
        }
        if (s >= 0) rate[s] = (double)bytes * reps / (now() - t) * 1e-9;
      }
      if (both || i == 0) {
        qsort(rate, 15, sizeof(double), by_value);
        sh->result[i] = rate[7];
      }
      atomic_fetch_add(&sh->stop, 1);
      while (atomic_load(&sh->stop) < 2) usleep(1000); /* waits, because the peer still reads this process's memory */
      _exit(0);
    }
  while (wait(NULL) > 0) {
  }
  printf("cma %-4s %10zu B  %7.2f GB/s per reader\n", both ? "both" : "one", bytes,
         both ? 0.5 * (sh->result[0] + sh->result[1]) : sh->result[0]);
}

static int is_memory(const char* word) {
  return !strcmp(word, "copy") || !strcmp(word, "sum") || !strcmp(word, "thpcopy") || !strcmp(word, "thpsum");
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (sh == MAP_FAILED) die("mmap");
  const char* cmd = argc > 1 ? argv[1] : "";
  if (!strcmp(cmd, "stream") && (argc == 7 || argc == 8)) {
    const size_t chunk = strtoull(argv[5], NULL, 10);
    stream(argv[2], argv[3], argv[4], chunk, argc == 8 ? strtoull(argv[7], NULL, 10) : chunk, atof(argv[6]));
  } else if (!strcmp(cmd, "pingpong") && argc == 5)
    pingpong(argv[2], argv[3], !strcmp(argv[4], "spin"));
  else if (!strcmp(cmd, "shm"))
    flags("shm spin, two cpus", SPIN, 0, 1);
  else if (!strcmp(cmd, "switch")) {
    flags("sched_yield, one cpu", YIELD, 0, 0);
    flags("futex, one cpu", FUTEX, 0, 0);
    flags("futex, two cpus", FUTEX, 0, 1);
  } else if (!strcmp(cmd, "cma") && argc == 4)
    cma(!strcmp(argv[2], "both"), strtoull(argv[3], NULL, 10));
  else if (!strcmp(cmd, "floor") && argc == 3)
    memory_floor(strtoull(argv[2], NULL, 10));
  else if (argc == 4 && is_memory(cmd) && atoi(argv[2]) >= 1 && atoi(argv[2]) <= 2)
    memory(cmd, atoi(argv[2]), strtoull(argv[3], NULL, 10));
  else {
    fprintf(stderr, "usage: see the head of limits.c\n");
    return 2;
  }
  return 0;
}
