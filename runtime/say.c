// What the program says to people, over the writing of whatever system there is.
#include "runtime.h"

bool pock_print(const char* what, const char* text, uint64_t n) {
  int64_t error = pock_write(1, text, n);
  return !error || pock_complain("the %s cannot be written: %s", what, pock_reason(error));
}

const char* pock_reason(int64_t error) {
  // Each with the number of the error, in octal, before it and a null behind it.
  static const char reasons[] =
      "\001operation not permitted\0"
      "\002no such file or directory\0"
      "\005input/output error\0"
      "\014out of memory\0"
      "\015permission denied\0"
      "\024a part of the path is not a directory\0"
      "\025it is a directory\0"
      "\027too many open files\0"
      "\030too many open files\0"
      "\032the file is in use\0"
      "\033file too large\0"
      "\034no space left on the device\0"
      "\035not a regular file\0"
      "\036read-only file system\0"
      "\040the reader went away\0"
      "\044the path is too long\0"
      "\113file too large\0"
      "\172disk quota exceeded\0";
  for (const char* reason = reasons; *reason; reason += pock_length(reason) + 1)
    if (*reason == -error) return reason + 1;
  return "the system refused";
}

static void say(const char* before, const char* format, va_list list, const char* after) {
  char buffer[POCK_PATH];
  struct pock_text text = {buffer, 0, sizeof buffer - 1};
  pock_put_bytes(&text, before, pock_length(before));
  pock_format_list(&text, format, list);
  text.length = pock_text_size(&text);
  text.capacity = sizeof buffer;  // a line that is cut ends all the same
  pock_put_bytes(&text, after, pock_length(after));
  pock_write(2, buffer, text.length);
}

void pock_say(const char* format, ...) {
  va_list list;
  va_start(list, format);
  say("", format, list, "");
  va_end(list);
}

bool pock_complain(const char* format, ...) {
  va_list list;
  va_start(list, format);
  say("trainer: ", format, list, "\n");
  va_end(list);
  return false;
}
