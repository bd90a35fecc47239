// Training data: arrays in .npy and IDX files, checked whole before the first step and then copied by the
// sample.
#include "runtime.h"

enum { HEADER = 4096 };  // the most that is read of one

uint32_t pock_dtype_bytes(uint8_t dtype) {
  static const uint8_t bytes[] = {4, 8, 1, 1, 4, 8};
  return dtype < sizeof bytes ? bytes[dtype] : 0;
}

const char* pock_dtype_name(uint8_t dtype) {
  static const char names[][8] = {"float32", "float64", "int8", "uint8", "int32", "int64", "mask"};
  return dtype < sizeof names / sizeof *names ? names[dtype] : "unknown";
}

void pock_put_shape(struct pock_text* out, const int64_t* dims, uint32_t rank) {
  pock_put(out, '[');
  for (uint32_t i = 0; i < rank; ++i) pock_format(out, i ? ",%lld" : "%lld", (long long)dims[i]);
  pock_put(out, ']');
}

// Counts the elements and compares them with the bytes after the header.
static bool fit(struct pock_array* array, const uint8_t* bytes, uint64_t header, uint64_t length,
                struct pock_text* why) {
  uint64_t count = 1, wanted;
  bool overflow = false;
  for (uint32_t i = 0; i < array->rank; ++i)
    overflow |= __builtin_mul_overflow(count, (uint64_t)array->dims[i], &count);
  overflow |= __builtin_mul_overflow(count, pock_dtype_bytes(array->dtype), &wanted);
  if (overflow) {
    pock_format(why, "its header claims more elements than memory can address");
    return false;
  }
  if (length - header != wanted) {
    pock_format(why, "%s: its header promises %llu bytes of data, the file has %llu",
                length - header < wanted ? "truncated" : "too long", (unsigned long long)wanted,
                (unsigned long long)(length - header));
    return false;
  }
  array->count = count;
  array->start = header;
  array->data = bytes + header;
  return true;
}

static bool parse_idx(const uint8_t* bytes, uint64_t length, struct pock_array* array,
                      struct pock_text* why) {
  uint8_t type = bytes[2], rank = bytes[3];
  if (type != 8 && type != 9) {
    pock_format(why, "its elements are big-endian; convert it to .npy");
    return false;
  }
  if (rank == 0 || rank > POCK_MAX_RANK || length < 4 + 4 * (uint64_t)rank) {
    pock_format(why, "damaged or truncated IDX header");
    return false;
  }
  array->dtype = type == 8 ? POCK_U8 : POCK_I8;
  array->rank = rank;
  for (uint32_t i = 0; i < rank; ++i) {
    const uint8_t* d = bytes + 4 + 4 * i;
    array->dims[i] = (int64_t)d[0] << 24 | d[1] << 16 | d[2] << 8 | d[3];
  }
  return fit(array, bytes, 4 + 4 * (uint64_t)rank, length, why);
}

// A reader of the Python dictionary in a .npy header.
struct npy {
  const char *at, *end;
};

static bool npy_take(struct npy* h, const char* token) {
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t')) ++h->at;
  size_t n = pock_length(token);
  if ((size_t)(h->end - h->at) < n || memcmp(h->at, token, n) != 0) return false;
  h->at += n;
  return true;
}

static bool npy_quote(struct npy* h) { return npy_take(h, "'") || npy_take(h, "\""); }

// Where the value of a key begins; the keys come in any order.
static bool npy_find(const struct npy* h, const char* key, struct npy* value) {
  for (const char* at = h->at; at < h->end; ++at) {
    *value = (struct npy){at, h->end};
    if (npy_quote(value) && npy_take(value, key) && npy_quote(value) && npy_take(value, ":")) return true;
  }
  return false;
}

static bool npy_string(struct npy* h, char* out, size_t room) {
  if (!npy_quote(h)) return false;
  size_t n = 0;
  for (; h->at < h->end && *h->at != '\'' && *h->at != '"'; ++h->at)
    if (n + 1 < room) out[n++] = *h->at;
  out[n] = 0;
  return npy_quote(h);
}

static bool npy_shape(struct npy* h, struct pock_array* array, bool* deep) {
  if (!npy_take(h, "(")) return false;
  while (!npy_take(h, ")")) {
    uint64_t dim;
    npy_take(h, "");  // spaces
    h->at = pock_parse_digits(h->at, h->end, &dim);
    if (!h->at || dim > INT64_MAX) return false;
    npy_take(h, "L");  // written by Python 2
    if (array->rank == POCK_MAX_RANK)
      *deep = true;
    else
      array->dims[array->rank++] = (int64_t)dim;
    if (!npy_take(h, ",") && !(h->at < h->end && *h->at == ')')) return false;
  }
  return true;
}

static bool npy_dtype(const char* descr, struct pock_array* array, struct pock_text* why) {
  static const struct {
    char code[3];
    uint8_t dtype;
  } known[] = {{"f4", POCK_F32}, {"f8", POCK_F64}, {"u1", POCK_U8}, {"b1", POCK_U8},
               {"i1", POCK_I8},  {"i4", POCK_I32}, {"i8", POCK_I64}};
  if (descr[0] == '>') {
    pock_format(why, "its elements are big-endian (%s); save it as little-endian", descr);
    return false;
  }
  if (descr[0] == '<' || descr[0] == '|')
    for (uint32_t i = 0; i < sizeof known / sizeof *known; ++i)
      if (pock_equal(descr + 1, known[i].code)) {
        array->dtype = known[i].dtype;
        return true;
      }
  pock_format(why, "element type '%s' is not read; use float32, float64, uint8, int8, int32 or int64", descr);
  return false;
}

static bool parse_npy(const uint8_t* bytes, uint64_t length, struct pock_array* array,
                      struct pock_text* why) {
  uint64_t start = length >= 10 && bytes[6] == 1 ? 10 : 12, header = 0;
  if (length < start) {
    pock_format(why, "truncated inside the .npy header");
    return false;
  }
  if (bytes[6] < 1 || bytes[6] > 3) {
    pock_format(why, ".npy version %d is not known; 1, 2 and 3 are", bytes[6]);
    return false;
  }
  for (uint64_t i = start; i-- > 8;) header = header << 8 | bytes[i];
  if (header > length - start) {
    pock_format(why, "truncated inside the .npy header");
    return false;
  }
  // What is of use stands at its beginning; behind it are blanks.
  const uint64_t read = !POCK_BOARD || header < HEADER - start ? header : HEADER - start;
  const struct npy h = {(const char*)bytes + start, (const char*)bytes + start + read};
  struct npy type, order, shape;
  char descr[24];
  bool good = npy_find(&h, "descr", &type), fortran = false, deep = false;
  if (good && npy_take(&type, "[")) {
    pock_format(why, "it holds records, not plain numbers");
    return false;
  }
  good = good && npy_string(&type, descr, sizeof descr) && npy_find(&h, "fortran_order", &order) &&
         ((fortran = npy_take(&order, "True")) || npy_take(&order, "False")) &&
         npy_find(&h, "shape", &shape) && npy_shape(&shape, array, &deep);
  if (!good) {
    pock_format(why, "damaged .npy header");
    return false;
  }
  if (!npy_dtype(descr, array, why)) return false;
  if (fortran) {
    pock_format(why, "it is in Fortran order; save numpy.ascontiguousarray(...) of it");
    return false;
  }
  if (deep) {
    pock_format(why, "it has more than %d axes", POCK_MAX_RANK);
    return false;
  }
  return fit(array, bytes, start + header, length, why);
}

bool pock_parse_array(const uint8_t* bytes, uint64_t length, struct pock_array* array,
                      struct pock_text* why) {
  *array = (struct pock_array){0};
  if (length == 0) {
    pock_format(why, "the file is empty");
    return false;
  }
  if (length >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B) {
    pock_format(why, "is gzip-compressed; decompress it first");
    return false;
  }
  if (length >= 4 && memcmp(bytes, "PK\3\4", 4) == 0) {
    pock_format(why, "is a zip archive (.npz?); save each array with numpy.save");
    return false;
  }
  if (length >= 8 && memcmp(bytes, "\x93NUMPY", 6) == 0) return parse_npy(bytes, length, array, why);
  if (length >= 4 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] >= 8 && bytes[2] <= 14)
    return parse_idx(bytes, length, array, why);
  pock_format(why, "is neither a .npy nor an IDX file");
  return false;
}

bool pock_is_whole(uint8_t dtype) {
  return dtype == POCK_I8 || dtype == POCK_U8 || dtype == POCK_I32 || dtype == POCK_I64;
}

// Whether the file's elements can become the input's.
static bool convertible(uint8_t from, const struct pock_input* input) {
  if (from == input->dtype) return pock_dtype_bytes(from) > 0;
  if (input->dtype == POCK_F32)
    return from == POCK_F64 || (input->feed == POCK_LABELS && pock_is_whole(from));
  if (input->dtype != POCK_I32 && input->dtype != POCK_I64) return false;
  return pock_is_whole(from) && (input->feed == POCK_LABELS || from == POCK_I32 || from == POCK_I64);
}

// Elements from one on, in memory until the next call: `n`, or less where that is more than a part of the file.
static const uint8_t* elements_at(const struct pock_array* array, uint64_t first, uint64_t* n) {
  const uint64_t size = pock_dtype_bytes(array->dtype);
  if (!POCK_BOARD || array->data) return array->data + first * size;
  if (*n > array->stream->most / size) *n = array->stream->most / size;
  return array->stream->part(array->stream, array->start + first * size, *n * size);
}

// Of elements in memory.
int64_t pock_whole_of(const uint8_t* data, uint8_t dtype, uint64_t i) {
  int32_t narrow;
  int64_t wide;
  switch (dtype) {
    case POCK_U8:
      return data[i];
    case POCK_I8:
      return (int8_t)data[i];
    case POCK_I32:
      __builtin_memcpy(&narrow, data + 4 * i, 4);
      return narrow;
    default:
      __builtin_memcpy(&wide, data + 8 * i, 8);
      return wide;
  }
}

int64_t pock_whole_at(const struct pock_array* array, uint64_t i) {
  uint64_t one = 1;
  return pock_whole_of(elements_at(array, i, &one), array->dtype, 0);
}

// Same shape after the first axis, axes of size 1 aside.
static bool same_sample(const struct pock_array* array, const struct pock_input* input) {
  uint32_t a = 1, b = 1;
  for (;;) {
    while (a < array->rank && array->dims[a] == 1) ++a;
    while (b < input->rank && input->dims[b] == 1) ++b;
    if (a >= array->rank || b >= input->rank) return a >= array->rank && b >= input->rank;
    if (array->dims[a++] != input->dims[b++]) return false;
  }
}

// The shape that is wanted, with the first axis of a sample moved to the end.
static bool is_channels_last(const struct pock_array* array, const struct pock_input* input) {
  if (array->rank != input->rank || array->rank < 3) return false;
  for (uint32_t i = 1; i < array->rank; ++i)
    if (array->dims[i] != input->dims[i + 1 < array->rank ? i + 1 : 1]) return false;
  return true;
}

struct pock_limits pock_limits_of(const struct pock_input* input) {
  struct pock_limits l = {INT64_MIN, INT64_MAX, 0};
  if (input->classes > 0)
    l.low = input->lowest, l.high = input->classes - 1;
  else if (input->dtype == POCK_I32)
    l.low = INT32_MIN, l.high = INT32_MAX;
  l.also = input->classes > 0 && input->ignored != INT64_MIN ? input->ignored : l.low;
  return l;
}

bool pock_is_good(const struct pock_limits* l, int64_t value) {
  return (value >= l->low && value <= l->high) || value == l->also;
}

// Says which element is no class id, or does not fit the input's type.
static void check_values(const struct pock_source* source, struct pock_text* why) {
  if (!pock_is_whole(source->array.dtype)) return;
  const struct pock_limits l = pock_limits_of(source->input);
  for (uint64_t i = 0; i < source->array.count; ++i) {
    int64_t value = pock_whole_at(&source->array, i);
    if (pock_is_good(&l, value)) continue;
    pock_format(why, "element %llu (sample %llu) is %lld, outside [%lld,%lld]", (unsigned long long)i,
                (unsigned long long)(i / source->elements), (long long)value, (long long)l.low,
                (long long)l.high);
    if (l.also != l.low) pock_format(why, " and not %lld, which is ignored", (long long)l.also);
    return;
  }
}

// What is wrong with one opened array, as far as it can be told without the others.
static void check_source(const struct pock_source* source, struct pock_text* why) {
  const struct pock_input* input = source->input;
  const struct pock_array* array = &source->array;
  if (array->rank == 0 || !same_sample(array, input)) {
    pock_format(why, "has shape ");
    pock_put_shape(why, array->dims, array->rank);
    pock_format(why, ", '%s' needs [N", input->name);
    for (uint32_t i = 1; i < input->rank; ++i) pock_format(why, ",%lld", (long long)input->dims[i]);
    pock_format(why, "]");
    if (is_channels_last(array, input))
      pock_format(why, ": are its channels last? Transpose it");
    else if (input->classes && !input->lowest && array->rank &&
             array->dims[array->rank - 1] == input->classes)
      pock_format(why, ", class ids: is it one-hot? Save numpy.argmax(..., -1) of it");
  } else if (!convertible(array->dtype, input)) {
    pock_format(why, "has %s elements, '%s' takes %s", pock_dtype_name(array->dtype), input->name,
                input->classes && !input->lowest ? "class ids: uint8, int32 or int64"
                                                 : pock_dtype_name(input->dtype));
    if (array->dtype == POCK_U8 && input->feed == POCK_DATA)
      pock_format(why, "; recompile with --input-scale/--input-mean/--input-std to feed bytes");
  } else {
    check_values(source, why);
  }
}

bool pock_open_dataset(const struct pock_program* program, const char* const* paths, const char* prefix,
                       struct pock_dataset* set, struct pock_text* report) {
  size_t before = report->length;
  set->count = program->input_count;
  set->batch = program->batch;
  const struct pock_source* first = NULL;
  for (uint32_t i = 0; i < set->count; ++i) {
    struct pock_source* source = &set->sources[i];
    *source = (struct pock_source){.input = &program->inputs[i], .path = paths[i], .elements = 1};
    for (uint32_t axis = 1; axis < source->input->rank; ++axis)
      source->elements *= (uint64_t)source->input->dims[axis];
    if (!paths[i]) continue;  // zeros
    char message[512];
    struct pock_text why = {message, 0, sizeof message};
    struct pock_stream* stream = &source->stream;
    int64_t error = pock_open_stream(source->path, stream);
    if (error) {
      pock_format(&why, "cannot be opened: %s", pock_reason(error));
    } else if (pock_parse_array(stream->file.bytes, stream->file.length, &source->array, &why)) {
      if (POCK_BOARD && stream->part) source->array.data = NULL, source->array.stream = stream;
      check_source(source, &why);
      if (why.length == 0 && !first) {
        first = source;
        set->samples = (uint64_t)source->array.dims[0];
      } else if (why.length == 0 && (uint64_t)source->array.dims[0] != set->samples) {
        pock_format(&why, "has %lld samples, '%s' has %llu", (long long)source->array.dims[0], first->path,
                    (unsigned long long)set->samples);
      }
    }
    if (why.length)
      pock_format(report, "  --%s%s '%s' %s\n", prefix, source->input->feed == POCK_DATA ? "data" : "labels",
                  source->path, pock_string(&why));
  }
  if (report->length == before && set->samples == 0)
    pock_format(report, "  --%sdata '%s' holds no samples\n", prefix, first ? first->path : "");
  return report->length == before;
}

void pock_copy_floats(float* to, const void* from, uint64_t count) {
  const char* bytes = from;
  char* out = (char*)to;
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, bytes + 4 * i, 4);
    if (!(bits & 0x7F800000)) bits &= 0x80000000;
    __builtin_memcpy(out + 4 * i, &bits, 4);
  }
}

static void copy_doubles(float* to, const uint8_t* from, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    double value;
    __builtin_memcpy(&value, from + 8 * i, 8);
    to[i] = (float)value;  // with flush-to-zero set, as it is in a trainer
  }
}

// Elements of the file as the input has them.
static void convert(char* to, const uint8_t* from, uint64_t n, uint8_t have, uint8_t want) {
  if (have == POCK_F32) {
    pock_copy_floats((float*)to, from, n);
  } else if (have == POCK_F64 && want == POCK_F32) {
    copy_doubles((float*)to, from, n);
  } else if (have == want) {
    memcpy(to, from, n * pock_dtype_bytes(want));
  } else if (want == POCK_F32) {
    for (uint64_t k = 0; k < n; ++k) ((float*)to)[k] = (float)pock_whole_of(from, have, k);
  } else if (want == POCK_I32) {
    for (uint64_t k = 0; k < n; ++k) ((int32_t*)to)[k] = (int32_t)pock_whole_of(from, have, k);
  } else {
    for (uint64_t k = 0; k < n; ++k) ((int64_t*)to)[k] = pock_whole_of(from, have, k);
  }
}

void pock_gather(const struct pock_dataset* set, uint64_t sample, uint32_t row, char* arena, bool infer) {
  for (uint32_t i = 0; i < set->count; ++i) {
    const struct pock_source* source = &set->sources[i];
    const struct pock_input* input = source->input;
    const uint64_t n = source->elements, size = pock_dtype_bytes(input->dtype);
    char* to = arena + (infer ? input->infer_offset : input->offset) + row * n * size;
    if (!source->path) {
      memset(to, 0, n * size);
      continue;
    }
    uint64_t k = 0;
    do {
      uint64_t some = n - k;
      const uint8_t* from = elements_at(&source->array, sample * n + k, &some);
      convert(to + k * size, from, some, source->array.dtype, input->dtype);
      k += some;
    } while (POCK_BOARD && k < n);
  }
}
