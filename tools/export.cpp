#include "export.h"

#include <filesystem>

#include "checkpoint.h"
#include "pock/frontends/export.h"
#include "pock/support/diag.h"
#include "pock/support/new_file.h"

namespace pock {
namespace {

namespace fs = std::filesystem;

// Makes the folders that a file needs; those that it made go again with it, unless they are to stay.
class NewFolders {
 public:
  ~NewFolders() {
    std::error_code code;
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) fs::remove(*folder, code);
  }
  void make_for(const fs::path& file) {
    fs::path folder = file.parent_path();
    if (folder.empty() || fs::exists(folder)) return;
    make_for(folder);
    std::error_code code;
    fs::create_directory(folder, code);
    if (code) throw error("cannot make the folder '{}': {}", folder.string(), code.message());
    made_.push_back(folder);
  }
  void stay() { made_.clear(); }

 private:
  std::vector<fs::path> made_;
};

void write(const TunedModel& tuned) {
  NewFolders folders;  // inside the tuned model's own, which must be there
  NewFile model(tuned.files.back().path, tuned.files.back().bytes);
  std::vector<std::unique_ptr<NewFile>> data;
  for (size_t i = 0; i + 1 < tuned.files.size(); ++i) {
    folders.make_for(tuned.files[i].path);
    data.push_back(std::make_unique<NewFile>(tuned.files[i].path, tuned.files[i].bytes));
  }
  for (auto& file : data) file->commit();
  model.commit();
  folders.stay();
}

}  // namespace

void run_export(const std::string& model, const std::string& weights, const std::string& out) {
  if (same_place(weights, out)) throw error("-o {} would write over the checkpoint", out);
  Checkpoint checkpoint = read_checkpoint(weights);
  TunedModel tuned = export_onnx(model, checkpoint.model_hash, checkpoint.tensors, out);
  for (const TunedFile& f : tuned.files)
    if (same_place(f.path, weights)) throw error("'{}' would be written over the checkpoint", f.path);
  write(tuned);
  for (const std::string& note : tuned.notes) say(note);
  say(fmt::format("wrote {}: {} tensor{} differ{} from {}", out == "-" ? "to standard output" : out,
                  tuned.changed, tuned.changed == 1 ? "" : "s", tuned.changed == 1 ? "s" : "", model));
}

}  // namespace pock
