// Checkpoints: refused with a reason, or loaded, and saved again as the same progress. The runtime's reader,
// compiled for this machine, with the hand-written program of the runtime's tests. An input that is empty stands
// for a checkpoint of that program; changes leave its checksums right, or nothing behind them would be reached.
#include <cstring>
#include <random>
#include <vector>

#include "support/support.h"
#include "target.h"

#define restrict __restrict
extern "C" {
#include "runtime.h"
}

namespace {
using pock::test::read_file;

// Parameters and state; the blocks have exactly the sizes that the program asks for.
struct Memory {
  std::vector<char> params = std::vector<char>(pock_program.params_bytes, 1);
  std::vector<char> state = std::vector<char>(pock_program.state_bytes, 2);
  pock_buffers buffers() { return {nullptr, params.data(), state.data(), pock_program.weights, nullptr}; }
};

std::string saved(Memory& memory, const pock_progress& progress) {
  static pock::test::TempDir folder;
  static const std::string path = folder / "c";
  pock_buffers buffers = memory.buffers();
  if (!pock_save_checkpoint(&pock_program, &buffers, &progress, path.c_str(), false)) return "";
  return read_file(path);
}

const std::string& good() {
  static Memory memory;
  static const std::string bytes = saved(memory, {12, 1, 24, 99, 83, 0.5f, 1, 10});
  return bytes;
}

struct Reading {
  explicit Reading(bool weights_only) { checkpoint.weights_only = weights_only; }
  std::vector<uint64_t> offsets = std::vector<uint64_t>(pock_program.tensor_count);
  std::vector<char> scratch = std::vector<char>(pock_checkpoint_scratch(&pock_program));
  pock_checkpoint checkpoint{.offsets = offsets.data(), .scratch = {scratch.data(), 0, scratch.size()}};

  bool accepts(const uint8_t* bytes, size_t size) {
    char reason[512];
    pock_text why{reason, 0, sizeof reason};
    bool accepted = pock_check_checkpoint(&pock_program, bytes, size, &checkpoint, &why) == POCK_GOOD;
    pock::fuzz::must(accepted || why.length > 0, "refused without a reason");
    return accepted;
  }
};

void put_crc(std::string* file, const char* key, uint32_t crc) {
  size_t at = file->find(key);
  if (at == std::string::npos || file->size() - at < std::strlen(key) + 8) return;
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", crc);
  file->replace(at + std::strlen(key), 8, digits);
}

// Makes the checksums right, where the tensors stand in order.
void sign(std::string* file) {
  uint64_t header = 0;
  if (file->size() < 8) return;
  std::memcpy(&header, file->data(), 8);
  if (header > file->size() - 8) return;
  auto bytes = reinterpret_cast<const uint8_t*>(file->data());
  put_crc(file, "\"crc32\":\"", pock_crc32(0, bytes + 8 + header, file->size() - 8 - header));
  if (pock_starts_checkpoint(bytes, header + 8))
    put_crc(file, "\"header_crc32\":\"", pock_header_crc(bytes, header + 8));
}

void check_saved(Memory& memory, const pock_progress& progress) {
  std::string again = saved(memory, progress);
  if (again.empty()) return;  // numbers that are not finite are not saved
  Reading reading(false);
  pock::fuzz::must(reading.accepts(reinterpret_cast<const uint8_t*>(again.data()), again.size()),
                   "what was saved is refused");
  pock::fuzz::must(saved(memory, reading.checkpoint.progress) == again,
                   "what was saved has another progress");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::vector<uint8_t> block(bytes, bytes + size);
  if (size == 0) block.assign(good().begin(), good().end());
  for (bool weights_only : {false, true}) {
    Reading reading(weights_only);
    if (!reading.accepts(block.data(), block.size())) continue;
    Memory loaded;
    pock_buffers buffers = loaded.buffers();
    pock_load_checkpoint(&pock_program, &reading.checkpoint, &buffers);
    if (!weights_only) check_saved(loaded, reading.checkpoint.progress);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size, size_t room) __attribute__((weak));

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* bytes, size_t size, size_t room, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 64 == 0 && good().size() <= room) {
    std::memcpy(bytes, good().data(), good().size());
    size = good().size();
  }
  size = LLVMFuzzerMutate(bytes, size, room);
  if (random() % 4 == 0) return size;
  std::string file = pock::fuzz::text_of(bytes, size);
  sign(&file);
  std::memcpy(bytes, file.data(), file.size());
  return file.size();
}
