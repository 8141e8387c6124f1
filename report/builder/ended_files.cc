#include "report/builder/ended_files.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/builder/written_files.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

// Files read at a time to find their owners: a folder may have thousands of files that must stay.
constexpr size_t kMaxRead = 64;

bool IsOfEndedProcess(std::string_view process, uint32_t pid) {
  const std::optional<TableOwner> owner = OwnerOnThisHost(process);
  if (!owner.has_value() || owner->pid != pid) return false;
  return owner->pid == 0 || LivenessOf(*owner) == Liveness::kDead;  // 0: the sum of a program's processes
}

// Returns whether an exporter wrote the file, under this name, for a process that has ended. A copy that somebody made
// under another name does not count.
bool MayGo(const ProfileName& name, const WrittenFile& file) {
  return file.by_holdfast && ProgramForFileName(file.program) == name.program && file.kind == name.kind &&
         file.is_sum == (name.pid == 0) && IsOfEndedProcess(file.process, name.pid);
}

}  // namespace

uint64_t EndedFiles::Shrink(const OutputFolder& output, uint64_t max_bytes, uid_t user) {
  uint64_t removed = 0;
  auto& [files, look_at] = files_[user];
  if (files.size() >= look_at) {
    output.DropGone(&files);
    look_at = std::max<size_t>(1024, files.size() * 2);
  }
  while (max_bytes != 0 && !files.empty() && output.bytes() > max_bytes) {
    removed += output.Shrink(max_bytes, {files.front()}).size();
    files.pop_front();
  }
  // A build's last files may be written all at once, more than are read at a time.
  for (uint64_t more = 1; more != 0 && max_bytes != 0 && user == geteuid() && output.bytes() > max_bytes;) {
    removed += more = ShrinkEarlier(output, max_bytes);
  }
  return removed;
}

uint64_t EndedFiles::ShrinkEarlier(const OutputFolder& output, uint64_t max_bytes) {
  std::vector<OutputFolder::Entry> entries = output.List();
  std::erase_if(entries, [this](const OutputFolder::Entry& entry) {
    return !entry.regular || !entry.own || stay_.contains(entry.name.ToString());
  });
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.modified_ns < b.modified_ns; });
  std::vector<ProfileName> names;
  for (const OutputFolder::Entry& entry : entries) {
    if (names.size() < kMaxRead) names.push_back(entry.name);
  }
  const std::vector<std::optional<WrittenFile>> files = ReadWrittenFiles(output, names);
  std::vector<ProfileName> may_go;
  for (size_t i = 0; i < names.size(); ++i) {
    if (files[i].has_value() && MayGo(names[i], *files[i])) {
      may_go.push_back(names[i]);
    } else {
      stay_.insert(names[i].ToString());
    }
  }
  return output.Shrink(max_bytes, may_go).size();
}

}  // namespace holdfast
