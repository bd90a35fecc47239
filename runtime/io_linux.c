// Files, memory, time and signals, straight from the Linux kernel.
#include "linux_arch.h"

enum { HERE = -100 /* AT_FDCWD */, HUGE_PAGE = 2 << 20 };

static int64_t open_file(const char* path, long flags) {
  return pock_syscall6(SYS_openat, HERE, (long)path, flags | 0x80000 /* close on exec */, 0644, 0, 0);
}

void pock_close(int fd) { pock_syscall(SYS_close, fd, 0, 0); }

// struct statx, the same on every architecture: the mode is at byte 28, the inode at 32, the size at 40, the device at
// 136. Of what `directory` is where `path` is empty.
static int64_t describe(int64_t directory, const char* path, uint64_t status[32]) {
  memset(status, 0, 32 * sizeof *status);
  return pock_syscall6(SYS_statx, directory, (long)path, 0x1000 /* AT_EMPTY_PATH */, 0x7FF, (long)status, 0);
}

int64_t pock_map_file(const char* path, struct pock_file* file) {
  *file = (struct pock_file){0};
  int64_t fd = open_file(path, 0x800 /* do not wait for the other end of a pipe */);
  if (fd < 0) return fd;
  uint64_t status[32];
  int64_t error = describe(fd, "", status);
  uint32_t kind = (uint32_t)(status[3] >> 32) & 0170000;
  if (!error && kind == 0040000)
    error = -21;  // a directory
  else if (!error && kind != 0100000)
    error = -29;  // a pipe, say: not a file that can be mapped
  if (!error && status[5]) {
    long address = status[5] > INTPTR_MAX ? -12  // more than addresses there are
                                          : pock_syscall6(SYS_mmap, 0, (long)status[5], 1 /* read */,
                                                          2 /* private */, (long)fd, 0);
    if (address < 0 && address > -4096)
      error = address;
    else
      *file = (struct pock_file){(const uint8_t*)address, status[5]};
  }
  pock_close((int)fd);
  return error;
}

void pock_unmap_file(struct pock_file* file) {
  if (file->length) pock_syscall(SYS_munmap, (long)file->bytes, (long)file->length, 0);
  *file = (struct pock_file){0};
}

int64_t pock_open_stream(const char* path, struct pock_stream* stream) {
  return pock_map_file(path, &stream->file);
}

static bool is_one_file(const uint64_t a[32], const uint64_t b[32]) { return a[4] == b[4] && a[17] == b[17]; }

bool pock_same_file(const char* a, const char* b) {
  uint64_t first[32], second[32];
  return !describe(HERE, a, first) && !describe(HERE, b, second) && is_one_file(first, second);
}

int64_t pock_create_file(const char* path) {
  for (;;) {
    int64_t fd = open_file(path, 01 | 0100 /* write, create */), error;
    if (fd < 0) return fd;
    do error = pock_syscall(SYS_flock, fd, 2 /* exclusive */, 0);
    while (error == -4);  // interrupted; other errors: a file system without locks
    // While we waited, the other writer may have given the file its last name.
    uint64_t ours[32], there[32];
    describe(fd, "", ours);
    error = describe(HERE, path, there);
    if (!error && is_one_file(ours, there)) {
      error = pock_syscall(SYS_ftruncate, fd, 0, 0);
      if (!error) return fd;
    }
    pock_close((int)fd);
    if (error && error != -2) return error;
  }
}

int64_t pock_write(int fd, const void* bytes, uint64_t n) {
  const char* from = bytes;
  while (n > 0) {
    int64_t wrote = pock_syscall(SYS_write, fd, (long)from, (long)n);
    if (wrote == -4) continue;  // interrupted
    if (wrote < 0) return wrote;
    from += wrote;
    n -= (uint64_t)wrote;
  }
  return 0;
}

void pock_hold_standard_streams(void) {
  int64_t fd;
  do fd = open_file("/dev/null", 0);
  while (fd >= 0 && fd < 3);
  if (fd >= 0) pock_close((int)fd);
}

int64_t pock_sync(int fd) { return pock_syscall(SYS_fsync, fd, 0, 0); }

int64_t pock_sync_directory_of(const char* path) {
  char directory[4096] = ".";
  size_t n = pock_length(path);
  while (n > 0 && path[n - 1] != '/') --n;
  if (n >= sizeof directory) return -36;
  if (n > 0) {
    memcpy(directory, path, n);
    directory[n] = 0;
  }
  int64_t fd = open_file(directory, 0);
  if (fd < 0) return fd;
  int64_t error = pock_sync((int)fd);
  pock_close((int)fd);
  return error == -22 ? 0 : error;  // some file systems cannot sync a directory
}

int64_t pock_rename(const char* from, const char* to) {
  return pock_syscall6(SYS_renameat, HERE, (long)from, HERE, (long)to, 0, 0);
}

int64_t pock_link(const char* from, const char* to) {
  return pock_syscall6(SYS_linkat, HERE, (long)from, HERE, (long)to, 0, 0);
}

int64_t pock_unlink(const char* path) { return pock_syscall(SYS_unlinkat, HERE, (long)path, 0); }

int64_t pock_program_path(char* path, uint64_t room) {
  return pock_syscall6(SYS_readlinkat, HERE, (long)"/proc/self/exe", (long)path, (long)room, 0, 0);
}

void* pock_reserve(uint64_t bytes) {
  // Asks for one huge page more and starts on a boundary. What is never touched costs no memory.
  bytes = (bytes + 4095) & ~(uint64_t)4095;
  if (bytes > INTPTR_MAX - HUGE_PAGE) return NULL;
  unsigned long address =
      (unsigned long)pock_syscall6(SYS_mmap, 0, (long)(bytes + HUGE_PAGE), 3 /* read, write */,
                                   0x4022 /* private, anonymous, no swap reserved */, -1, 0);
  if (address > -4096ul) return NULL;
  unsigned long given = address;
  address = (address + HUGE_PAGE - 1) & ~(unsigned long)(HUGE_PAGE - 1);
  // What stands out goes back, so that unmapping the block leaves nothing.
  long before = (long)(address - given);
  if (before) pock_syscall(SYS_munmap, (long)given, before, 0);
  pock_syscall(SYS_munmap, (long)(address + bytes), HUGE_PAGE - before, 0);
  // Whole huge pages only, or the tail would make the process larger than planned.
  uint64_t whole = bytes & ~(uint64_t)(HUGE_PAGE - 1);
  if (whole) pock_syscall(SYS_madvise, (long)address, (long)whole, 14 /* huge pages */);
  if (bytes > whole) pock_syscall(SYS_madvise, (long)(address + whole), (long)(bytes - whole), 15 /* none */);
  return (void*)address;
}

void pock_exit(int status) {
  for (;;) pock_syscall(SYS_exit_group, status, 0, 0);
}

double pock_seconds(void) {
  long time[2] = {0};  // since the machine was started: 32 bits are enough
  pock_syscall(SYS_clock_gettime, 1 /* monotonic */, (long)time, 0);
  return (double)time[0] + (double)time[1] * 1e-9;
}

uint32_t pock_cores(void) {
  uint64_t mask[128] = {0};
  int64_t bytes = pock_syscall(SYS_sched_getaffinity, 0, sizeof mask, (long)mask);
  uint32_t cores = 0;
  for (int64_t i = 0; i < bytes / 8; ++i)
    for (uint64_t word = mask[i]; word; word &= word - 1) ++cores;
  return cores ? cores : 1;
}

uint64_t pock_rss_anon(void) {
  char text[4096];
  int64_t fd = open_file("/proc/self/status", 0);
  if (fd < 0) return 0;
  int64_t n = pock_syscall(SYS_read, fd, (long)text, sizeof text - 1);
  pock_close((int)fd);
  if (n <= 0) return 0;
  text[n] = 0;
  for (const char* line = text; *line; ++line) {
    if (!pock_starts(line, "RssAnon:")) continue;
    uint64_t kilobytes;
    for (line += 8; *line == ' ' || *line == '\t';) ++line;
    return pock_parse_digits(line, text + n, &kilobytes) ? kilobytes * 1024 : 0;
  }
  return 0;
}

uint32_t pock_terminal_columns(int fd) {
  uint16_t size[4] = {0};
  if (pock_syscall(SYS_ioctl, fd, 0x5413 /* TIOCGWINSZ */, (long)size)) return 0;
  return size[1] ? size[1] : 80;
}

// A global because a signal handler is given no context of ours.
static volatile int caught;

static void on_signal(int number) {
  if (caught) pock_exit(128 + number);
  caught = number;
}

// Reading what a mapped file had when it was opened.
static void on_lost_file(int number) {
  (void)number;
  pock_complain("a file that is being read has become shorter");
  pock_exit(1);
}

#if defined(__x86_64__)
__attribute__((naked)) static void return_from_signal(void) { __asm__("mov $15, %eax\nsyscall"); }
enum { RESTORER = 0x04000000 };
#else
static void return_from_signal(void) {}  // the kernel brings its own
enum { RESTORER = 0 };
#endif

static void handle(int number, void (*handler)(int)) {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint32_t mask[2];
  } action = {handler, 0x10000000 /* restart system calls */ | RESTORER, return_from_signal, {0}};
  pock_syscall6(SYS_rt_sigaction, number, (long)&action, 0, 8, 0, 0);
}

void pock_catch_signals(void) {
  void (*const ignore)(int) = (void (*)(int))1;
  handle(2 /* SIGINT */, on_signal);
  handle(15 /* SIGTERM */, on_signal);
  handle(7 /* SIGBUS */, on_lost_file);
  // Writing then fails with a reason, and what is there can be saved.
  handle(13 /* SIGPIPE */, ignore);
  handle(25 /* SIGXFSZ */, ignore);
}

int pock_caught_signal(void) { return caught; }
