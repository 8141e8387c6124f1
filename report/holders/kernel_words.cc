#include "report/holders/kernel_words.h"

#include <dirent.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "report/observe/table/process_files.h"

namespace holdfast {
namespace {

constexpr size_t kMaxDescriptors = 1 << 18;
constexpr size_t kMaxText = size_t{64} << 20;  // of one descriptor: 600,000 watched ones

// Adds the hexadecimal number after the last `mark` of a line, unless it is 0.
void AddNumberAfter(absl::string_view line, absl::string_view mark, std::vector<uint64_t>* words) {
  const size_t at = line.rfind(mark);
  if (at == absl::string_view::npos) return;
  line = absl::StripLeadingAsciiWhitespace(line.substr(at + mark.size()));
  uint64_t word = 0;
  if (absl::SimpleHexAtoi(line.substr(0, line.find_first_of(" \t")), &word) && word != 0) words->push_back(word);
}

}  // namespace

void AddEpollData(std::string_view text, std::vector<uint64_t>* words) {
  // tfd:        5 events:       19 data:     55d0c0ffee00  pos:0 ino:2a sdev:d
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    if (absl::StartsWith(line, "tfd:")) AddNumberAfter(line, " data:", words);
  }
}

void AddTimerValues(std::string_view text, std::vector<uint64_t>* words) {
  // signal: 60/00007fff86e452a8
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    if (absl::StartsWith(line, "signal:")) AddNumberAfter(line, "/", words);
  }
}

std::vector<uint64_t> ReadKernelWords(pid_t pid, pid_t thread) {
  std::vector<uint64_t> words;
  AddTimerValues(ReadOfProcess(pid, "timers", kMaxText), &words);
  const std::string folder = absl::StrCat("/proc/", pid, "/task/", thread, "/fd");
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  if (entries == nullptr) return words;
  size_t count = 0;
  while (const dirent* entry = readdir(entries.get())) {
    if (++count > kMaxDescriptors) break;
    char target[32];
    const ssize_t length = readlinkat(dirfd(entries.get()), entry->d_name, target, sizeof target);
    if (length <= 0 || !absl::StrContains(absl::string_view(target, static_cast<size_t>(length)), "[eventpoll]"))
      continue;
    AddEpollData(ReadOfProcess(pid, absl::StrCat("task/", thread, "/fdinfo/", entry->d_name), kMaxText), &words);
  }
  return words;
}

}  // namespace holdfast
