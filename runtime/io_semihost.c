// Files, memory and time of a board without a system, from the debugger or emulator that it runs under (Arm's
// semihosting). Files are read whole into the memory that is left beside the plan.
#include "runtime.h"

enum {
  SYS_OPEN = 0x01,
  SYS_CLOSE = 0x02,
  SYS_WRITE = 0x05,
  SYS_READ = 0x06,
  SYS_FLEN = 0x0C,
  SYS_REMOVE = 0x0E,
  SYS_RENAME = 0x0F,
  SYS_CLOCK = 0x10,
  SYS_ERRNO = 0x13,
  SYS_EXIT_EXTENDED = 0x20
};
enum { READ_FILE = 1, WRITE_FILE = 5, WRITE_OUTPUT = 4, WRITE_ERROR = 8 };  // modes of opening

static int32_t call(uint32_t operation, const void* arguments) {
  register uint32_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = arguments;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return (int32_t)r0;
}

static int64_t failed(void) {
  int32_t error = call(SYS_ERRNO, NULL);
  return error > 0 ? -error : -5 /* input/output error */;
}

// The host counts from its own first number: below are standard output and standard error.
enum { FIRST_FILE = 16 };

static int64_t open_file(const char* path, uint32_t mode) {
  const uintptr_t arguments[] = {(uintptr_t)path, mode, pock_length(path)};
  int32_t handle = call(SYS_OPEN, arguments);
  return handle < 0 ? failed() : handle + FIRST_FILE;
}

void pock_close(int fd) {
  const uint32_t handle = (uint32_t)(fd - FIRST_FILE);
  call(SYS_CLOSE, &handle);
}

// ---- Memory: a block behind the other, and the last one may go back.

extern char pock_heap_begin[], pock_heap_end[];  // the linker script's
static char *heap, *last;

void* pock_reserve(uint64_t bytes) {
  if (!heap) heap = pock_heap_begin;
  if (bytes > (uint64_t)(pock_heap_end - heap)) return NULL;
  last = heap;
  heap += (bytes + 63) & ~(uint64_t)63;
  if (heap > pock_heap_end) heap = pock_heap_end;
  memset(last, 0, bytes);
  return last;
}

void pock_unmap_file(struct pock_file* file) {
  if (file->length && (char*)file->bytes == last) heap = last;
  *file = (struct pock_file){0};
}

// ---- Files

int64_t pock_map_file(const char* path, struct pock_file* file) {
  *file = (struct pock_file){0};
  int64_t fd = open_file(path, READ_FILE), error = 0;
  if (fd < 0) return fd;
  const uint32_t handle = (uint32_t)(fd - FIRST_FILE);
  int32_t length = call(SYS_FLEN, &handle);
  if (length < 0) error = failed();
  if (length > 0) {
    void* bytes = pock_reserve((uint32_t)length);
    const uintptr_t arguments[] = {handle, (uintptr_t)bytes, (uintptr_t)length};
    *file = (struct pock_file){bytes, (uint32_t)length};
    if (!bytes)
      error = -12;
    else if (call(SYS_READ, arguments))  // the bytes that did not come
      error = failed();
    if (error) pock_unmap_file(file);
  }
  pock_close((int)fd);
  return error;
}

// Nobody else writes files meanwhile, as far as the board can know.
int64_t pock_create_file(const char* path) { return open_file(path, WRITE_FILE); }

// Standard streams are opened when they are needed first.
static int64_t stream(int fd) {
  static int32_t opened[3];
  if (!opened[fd]) opened[fd] = (int32_t)open_file(":tt", fd == 1 ? WRITE_OUTPUT : WRITE_ERROR);
  return opened[fd];
}

int64_t pock_write(int fd, const void* bytes, uint64_t n) {
  if (fd < 3) fd = (int)stream(fd);
  if (fd < 0) return fd;
  const uintptr_t arguments[] = {(uintptr_t)(fd - FIRST_FILE), (uintptr_t)bytes, (uintptr_t)n};
  return n && call(SYS_WRITE, arguments) ? failed() : 0;
}

void pock_hold_standard_streams(void) {}
int64_t pock_sync(int fd) {
  (void)fd;
  return 0;
}
int64_t pock_sync_directory_of(const char* path) {
  (void)path;
  return 0;
}

int64_t pock_rename(const char* from, const char* to) {
  const uintptr_t arguments[] = {(uintptr_t)from, pock_length(from), (uintptr_t)to, pock_length(to)};
  return call(SYS_RENAME, arguments) ? failed() : 0;
}

// There are no links, so names move.
int64_t pock_link(const char* from, const char* to) {
  (void)from, (void)to;
  return -95 /* not supported */;
}

int64_t pock_unlink(const char* path) {
  const uintptr_t arguments[] = {(uintptr_t)path, pock_length(path)};
  return call(SYS_REMOVE, arguments) ? failed() : 0;
}

// By their names, which is all that the board knows of files.
bool pock_same_file(const char* a, const char* b) { return pock_equal(a, b); }

int64_t pock_program_path(char* path, uint64_t room) {
  (void)path, (void)room;
  return -2;
}

// ---- The rest

double pock_seconds(void) { return (uint32_t)call(SYS_CLOCK, NULL) * 0.01; }

void pock_exit(int status) {
  const uint32_t arguments[] = {0x20026 /* the program ended */, (uint32_t)status};
  for (;;) call(SYS_EXIT_EXTENDED, arguments);
}

uint32_t pock_cores(void) { return 1; }
uint64_t pock_rss_anon(void) { return 0; }
uint32_t pock_terminal_columns(int fd) {
  (void)fd;
  return 0;
}
void pock_catch_signals(void) {}
int pock_caught_signal(void) { return 0; }
