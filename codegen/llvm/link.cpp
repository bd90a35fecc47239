#include "llvm/link.h"

#include <lld/Common/Driver.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Support/raw_ostream.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "llvm/must.h"
#include "pock/support/diag.h"

LLD_HAS_DRIVER(elf)

namespace pock {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "pock-XXXXXX").string();
    if (!mkdtemp(name.data())) throw error("cannot make a temporary folder {}", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw error("cannot write {}: is the disk full?", path);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::string bytes(static_cast<size_t>(in.tellg()), '\0');
  in.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw error("cannot read {}", path);
  return bytes;
}

std::string run_lld(std::vector<std::string> options, const std::vector<std::string>& objects,
                    const std::string& script = {}) {
  static std::mutex one_at_a_time;  // lld keeps globals
  std::lock_guard lock(one_at_a_time);
  TemporaryFolder folder;
  const std::string out = folder.file("out");
  options.insert(options.begin(), "ld.lld");
  for (size_t i = 0; i < objects.size(); ++i) {
    options.push_back(folder.file(fmt::format("{}.o", i)));
    write_file(options.back(), objects[i]);
  }
  if (!script.empty()) {
    options.insert(options.end(), {"-T", folder.file("script")});
    write_file(options.back(), script);
  }
  options.insert(options.end(), {"-o", out});
  std::vector<const char*> args;
  for (const std::string& o : options) args.push_back(o.c_str());
  std::string problems;
  llvm::raw_string_ostream report(problems);
  const lld::Result result = lld::lldMain(args, llvm::nulls(), report, {{lld::Gnu, &lld::elf::link}});
  POCK_CHECK(result.retCode == 0, "linking failed: {}", problems);
  return read_file(out);
}

}  // namespace

// With -O2 strings that end alike share their bytes.
std::string link_program(const std::string& emulation, const std::vector<std::string>& objects) {
  return run_lld({"-m", emulation, "-static", "--gc-sections", "-z", "norelro", "-z", "noexecstack", "-s",
                  "--build-id=none", "-O2", "--threads=1"},
                 objects);
}

// Without pages nothing in the file is aligned to them. Names stay: a debugger shows them, and no flash holds them.
std::string link_image(const std::string& emulation, const std::string& script,
                       const std::vector<std::string>& objects) {
  return run_lld({"-m", emulation, "-static", "--gc-sections", "--nmagic", "-z", "norelro", "--build-id=none",
                  "-O2", "--threads=1"},
                 objects, script);
}

std::string link_objects(const std::string& emulation, const std::vector<std::string>& objects) {
  return run_lld({"-m", emulation, "-r", "--threads=1"}, objects);
}

std::string archive(const std::string& object, const std::string& member) {
  std::vector<llvm::NewArchiveMember> members;
  members.emplace_back(llvm::MemoryBufferRef(object, member));
  auto bytes = must(llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NormalSymtab,
                                               llvm::object::Archive::K_GNU, /*Deterministic=*/true,
                                               /*Thin=*/false));
  return bytes->getBuffer().str();
}

}  // namespace pock
