/* Moves the wall clock of one process: its offset in seconds is the 8 bytes of the file in KUBEDIFF_TEST_CLOCK, which a
 * test writes while the process runs. Preloaded (LD_PRELOAD); the monotonic clock stays as it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void open_offset(void) {
  const char *path = getenv("KUBEDIFF_TEST_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *at = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (at != MAP_FAILED) offset = at;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  long result = syscall(SYS_clock_gettime, id, now);
  if (result == 0 && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
  return (int)result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *to) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (to) *to = exact.tv_sec;
  return exact.tv_sec;
}
