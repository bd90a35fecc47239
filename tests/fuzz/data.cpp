// Data files (.npy, IDX): refused with a reason, or an array whose elements are all there.
#include <vector>

#include "target.h"

#define restrict __restrict
extern "C" {
#include "runtime.h"
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  char reason[512];
  pock_text why{reason, 0, sizeof reason};
  pock_array array;
  if (!pock_parse_array(bytes, size, &array, &why)) {
    pock::fuzz::must(why.length > 0, "refused without a reason");
    return 0;
  }
  pock::fuzz::must(array.data + array.count * pock_dtype_bytes(array.dtype) == bytes + size,
                   "the elements do not end where the file does");
  return 0;
}
