#include "export.h"

#include <filesystem>

#include "adapters.h"
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

// All or nothing: what is written is put in its place when everything is.
class Files {
 public:
  void add(const TunedModel& tuned) {
    add(tuned.files.back().path, {tuned.files.back().bytes});
    // Inside the folder of the model, which is there then.
    for (size_t i = 0; i + 1 < tuned.files.size(); ++i) {
      folders_.make_for(tuned.files[i].path);
      add(tuned.files[i].path, {tuned.files[i].bytes});
    }
  }
  void add(const std::string& path, const std::vector<std::string_view>& parts) {
    files_.push_back(std::make_unique<NewFile>(path, parts));
  }
  void commit() {
    for (size_t i = files_.size(); i-- > 0;) files_[i]->commit();  // the model behind its data
    folders_.stay();
  }

 private:
  NewFolders folders_;
  std::vector<std::unique_ptr<NewFile>> files_;
};

void check_places(const ExportArgs& args) {
  if (args.out.empty() && args.adapters.empty())
    throw error("give -o for a model with what was trained in it, or --adapters for a file of adapters");
  const std::pair<const char*, const std::string*> results[] = {{"-o", &args.out},
                                                                {"--adapters", &args.adapters}};
  for (const auto& [flag, path] : results)
    if (!path->empty() && same_place(args.weights, *path))
      throw error("{} {} would write over the checkpoint", flag, *path);
  if (!args.out.empty() && !args.adapters.empty() && same_place(args.out, args.adapters))
    throw error("-o and --adapters are both '{}'", args.out);
}

std::string place_text(const std::string& path) { return path == "-" ? "to standard output" : path; }

}  // namespace

void run_export(const ExportArgs& args) {
  check_places(args);
  const Checkpoint checkpoint = read_checkpoint(args.weights);
  Files files;
  std::vector<std::string> said;
  TunedModel tuned;
  if (!args.out.empty()) {
    const Tuning tuning = merged(checkpoint);
    tuned = export_onnx(args.model, checkpoint.model_hash, tuning, args.out);
    for (const TunedFile& f : tuned.files)
      for (const std::string& other : {args.weights, args.adapters})
        if (!other.empty() && same_place(f.path, other))
          throw error("'{}' would be written over '{}'", f.path, other);
    files.add(tuned);
    said = tuned.notes;
    said.push_back(
        fmt::format("wrote {}: {} tensor{} differ{} from {}{}", place_text(args.out), tuned.changed,
                    tuned.changed == 1 ? "" : "s", tuned.changed == 1 ? "s" : "", args.model,
                    tuning.added.empty()
                        ? ""
                        : fmt::format(", {} of them by an adapter that was merged", tuning.added.size())));
  }
  std::string head;
  if (!args.adapters.empty()) {
    for (const std::string& file : model_files(args.model, checkpoint.model_hash))
      if (same_place(file, args.adapters))
        throw error("--adapters {} would write over the model", args.adapters);
    const std::vector<std::string_view> parts = peft_parts(checkpoint, &head);
    files.add(args.adapters, parts);
    said.push_back(
        fmt::format("wrote {}: {} tensors for {}", place_text(args.adapters), parts.size() - 1, args.model));
  }
  files.commit();
  for (const std::string& line : said) say(line);
}

}  // namespace pock
