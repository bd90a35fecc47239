#include "llvm/link.h"

#include <lld/Common/Driver.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Support/raw_ostream.h>

#include <mutex>

#include "llvm/must.h"
#include "pock/support/diag.h"
#include "pock/support/temporary_folder.h"

LLD_HAS_DRIVER(elf)

namespace pock {
namespace {

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

const char* strip(Names names) { return names == Names::stripped ? "-s" : "--strip-debug"; }

}  // namespace

// With -O2 strings that end alike share their bytes.
std::string link_program(const std::string& emulation, const std::vector<std::string>& objects, Names names) {
  return run_lld({"-m", emulation, "-static", "--gc-sections", "-z", "norelro", "-z", "noexecstack",
                  strip(names), "--build-id=none", "-O2", "--threads=1"},
                 objects);
}

std::string link_plugin(const std::string& object) {
  return run_lld({"-shared", "-z", "noexecstack", "--build-id=none", "--threads=1"}, {object});
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
