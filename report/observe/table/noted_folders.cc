#include "report/observe/table/noted_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "report/base/file_descriptor.h"
#include "report/base/split.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {
namespace {

FileDescriptor OpenNotes(const std::string& tables, int flags) {
  FileDescriptor file(open(absl::StrCat(tables, "/", kTablePrefix, geteuid(), ".folders").c_str(),
                           flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) return {};
  return file;
}

// Gives up after about 100 ms, because the lock's holder may be stopped.
bool Lock(const FileDescriptor& file) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return true;
    const timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  return false;
}

std::string LineOf(const NotedFolder& folder) {
  return absl::StrCat(folder.id.device, " ", folder.id.inode, " ", folder.path, "\n");
}

std::vector<NotedFolder> ReadNotes(const FileDescriptor& file) {
  std::string text = ReadWhole(file);
  text.resize(text.rfind('\n') + 1);  // an unfinished line is read next time
  std::vector<NotedFolder> folders;
  for (const std::string_view line : Split(text, "\n")) {
    const std::vector<std::string_view> fields = Split(line, " ");
    NotedFolder folder;
    if (fields.size() < 3 || !absl::SimpleAtoi(std::string(fields[0]), &folder.id.device) ||
        !absl::SimpleAtoi(std::string(fields[1]), &folder.id.inode) || !fields[2].starts_with('/')) {
      continue;
    }
    folder.path = line.substr(fields[0].size() + fields[1].size() + 2);
    folders.push_back(std::move(folder));
  }
  return folders;
}

}  // namespace

void AskForOutputFolders(const std::string& tables) { OpenNotes(tables, O_RDONLY | O_CREAT); }

void NoteOutputFolder(const std::string& tables, const std::string& out, FolderId id) {
  if (!id.known() || out.find('\n') != std::string::npos) return;
  const FileDescriptor file = OpenNotes(tables, O_RDWR | O_APPEND);
  if (!file.valid() || !Lock(file)) return;
  std::vector<NotedFolder> folders = ReadNotes(file);
  const NotedFolder added{id, out};
  const auto is_it = [&](const NotedFolder& one) { return one.id == id && one.path == out; };
  if (std::any_of(folders.begin(), folders.end(), is_it)) return;
  std::string text = LineOf(added);
  if (folders.size() >= kMaxNotedFolders) {
    std::erase_if(folders, [](const NotedFolder& one) { return FolderIdOf(one.path) != one.id; });
    const size_t too_many = folders.size() - std::min(folders.size(), kMaxNotedFolders / 2);
    folders.erase(folders.begin(), folders.begin() + static_cast<ptrdiff_t>(too_many));
    folders.push_back(added);
    text.clear();
    for (const NotedFolder& one : folders) text += LineOf(one);
    if (ftruncate(file.get(), 0) != 0) return;
  }
  // On a full disk the line is missing: then only a pusher that is given this folder reads it.
  [[maybe_unused]] const ssize_t written = write(file.get(), text.data(), text.size());
}

std::vector<NotedFolder> NotedFoldersIn(const std::string& tables) {
  const FileDescriptor file = OpenNotes(tables, O_RDONLY);
  return file.valid() ? ReadNotes(file) : std::vector<NotedFolder>();
}

}  // namespace holdfast
