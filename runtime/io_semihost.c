// Files, memory and time of a board without a system, from the debugger or emulator that it runs under (Arm's
// semihosting). Checkpoints are read whole into the memory that is left beside the plan, data by the part.
#include "semihost.h"

enum { READ_FILE = 1, WRITE_FILE = 5, WRITE_OUTPUT = 4, WRITE_ERROR = 8 };  // modes of opening

static int64_t failed(void) {
  int32_t error = pock_semihost(SYS_ERRNO, NULL);
  return error > 0 ? -error : -5 /* input/output error */;
}

// The host counts from its own first number: below are standard output and standard error.
enum { FIRST_FILE = 16 };

static int64_t open_file(const char* path, uint32_t mode) {
  const uintptr_t arguments[] = {(uintptr_t)path, mode, pock_length(path)};
  int32_t handle = pock_semihost(SYS_OPEN, arguments);
  return handle < 0 ? failed() : handle + FIRST_FILE;
}

void pock_close(int fd) {
  const uint32_t handle = (uint32_t)(fd - FIRST_FILE);
  pock_semihost(SYS_CLOSE, &handle);
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
  int32_t length = pock_semihost(SYS_FLEN, &handle);
  if (length < 0) error = failed();
  if (length > 0) {
    void* bytes = pock_reserve((uint32_t)length);
    const uintptr_t arguments[] = {handle, (uintptr_t)bytes, (uintptr_t)length};
    *file = (struct pock_file){bytes, (uint32_t)length};
    if (!bytes)
      error = -12;
    else if (pock_semihost(SYS_READ, arguments))  // the bytes that did not come
      error = failed();
    if (error) pock_unmap_file(file);
  }
  pock_close((int)fd);
  return error;
}

// ---- Data files: a part at a time

enum { PART = 4096 };

// Where reading goes on behind the last part, or the file is small, as much as there is room for; else no more than is
// wanted, as a debugger may take long for each byte.
static const uint8_t* read_part(struct pock_stream* s, uint64_t at, uint64_t n) {
  uint8_t* room = (uint8_t*)s->file.bytes;
  if (at >= s->begin && at + n <= s->begin + s->held) return room + (at - s->begin);
  if (at == s->begin + s->held) n = s->file.length - at < PART ? s->file.length - at : PART;
  s->begin = at;
  s->held = n;
  const uintptr_t place[] = {s->handle, (uintptr_t)at},
                  arguments[] = {s->handle, (uintptr_t)room, (uintptr_t)n};
  if (!pock_semihost(SYS_SEEK, place) && !pock_semihost(SYS_READ, arguments)) return room;
  pock_semihost(SYS_WRITE0, "trainer: a data file can no longer be read\n");
  pock_exit(1);
}

int64_t pock_open_stream(const char* path, struct pock_stream* s) {
  *s = (struct pock_stream){0};
  int64_t fd = open_file(path, READ_FILE);
  if (fd < 0) return fd;
  const uint32_t handle = (uint32_t)(fd - FIRST_FILE);
  const int32_t length = pock_semihost(SYS_FLEN, &handle);
  if (length < 0) return failed();
  *s = (struct pock_stream){{pock_reserve(PART), (uint32_t)length}, read_part, PART, 0, 0, handle};
  if (!s->file.bytes) return -12;
  if (length) read_part(s, 0, (uint32_t)length < PART ? (uint32_t)length : PART);
  return 0;
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
  return n && pock_semihost(SYS_WRITE, arguments) ? failed() : 0;
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
  return pock_semihost(SYS_RENAME, arguments) ? failed() : 0;
}

// There are no links, so names move.
int64_t pock_link(const char* from, const char* to) {
  (void)from, (void)to;
  return -95 /* not supported */;
}

int64_t pock_unlink(const char* path) {
  const uintptr_t arguments[] = {(uintptr_t)path, pock_length(path)};
  return pock_semihost(SYS_REMOVE, arguments) ? failed() : 0;
}

// By their names, which is all that the board knows of files.
bool pock_same_file(const char* a, const char* b) { return pock_equal(a, b); }

int64_t pock_program_path(char* path, uint64_t room) {
  (void)path, (void)room;
  return -2;
}

// ---- The rest

double pock_seconds(void) { return (uint32_t)pock_semihost(SYS_CLOCK, NULL) * 0.01; }

void pock_exit(int status) {
  const uint32_t arguments[] = {0x20026 /* the program ended */, (uint32_t)status};
  for (;;) pock_semihost(SYS_EXIT_EXTENDED, arguments);
}

uint32_t pock_cores(void) { return 1; }
uint64_t pock_rss_anon(void) { return 0; }
uint32_t pock_terminal_columns(int fd) {
  (void)fd;
  return 0;
}
void pock_catch_signals(void) {}
int pock_caught_signal(void) { return 0; }
