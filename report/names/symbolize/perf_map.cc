#include "report/names/symbolize/perf_map.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <limits>

#include "fmt/format.h"
#include "report/names/dwarf/section.h"
#include "report/names/elf/debug_file_finder.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// Returns "" if the file cannot be read or trusted.
std::string ReadTrusted(const std::string& path, int64_t not_before_ns) {
  const auto fd = OpenRegular(path);
  struct stat status;
  if (!fd.ok() || fstat(fd->get(), &status) != 0) return {};
  if (status.st_uid != geteuid() && status.st_uid != 0) return {};
  if (status.st_mtim.tv_sec < not_before_ns / 1'000'000'000) return {};
  const auto size = static_cast<uint64_t>(status.st_size);
  std::string text;
  if (size > PerfMap::kMaxBytes || !dwarf::Section::InFile(fd->get(), 0, size).Read(0, size, &text)) return {};
  return text;
}

}  // namespace

std::optional<PerfMap> PerfMap::OfProcess(const Profile& profile) {
  if (profile.process().pid == 0 || profile.process().started_ns == 0) return std::nullopt;
  const std::string pid = fmt::format("{}", profile.process().pid);
  for (const std::string& root : {"/proc/" + pid + "/root", std::string()}) {
    std::string map = ReadTrusted(fmt::format("{}/tmp/perf-{}.map", root, pid), profile.process().started_ns);
    if (!map.empty()) return PerfMap(std::move(map));
  }
  return std::nullopt;
}

PerfMap::PerfMap(std::string text) : text_(std::move(text)) {
  std::string_view rest = text_;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    uint64_t start = 0, size = 0;
    const char* end = line.data() + line.size();
    const auto hexadecimal = [&](const char* at, uint64_t* number) {
      if (end - at > 2 && at[0] == '0' && at[1] == 'x') at += 2;
      const auto [next, failure] = std::from_chars(at, end, *number, 16);
      return failure == std::errc() && next != end && *next == ' ' ? next + 1 : nullptr;
    };
    const char* at = hexadecimal(line.data(), &start);
    if (at != nullptr) at = hexadecimal(at, &size);
    if (at == nullptr || at == end || size == 0 || start + size < start) continue;
    Add(start, size, std::string_view(at, static_cast<size_t>(end - at)).substr(0, kMaxName));
  }
}

void PerfMap::Add(uint64_t start, uint64_t size, std::string_view name) {
  const uint64_t end = start + size;
  // Removes overlapped entries, except their parts before and after the new one.
  auto next = entries_.lower_bound(start);
  if (next != entries_.begin()) {
    auto before = std::prev(next);
    if (before->second.end > start) {
      if (before->second.end > end) entries_.emplace(end, before->second);
      before->second.end = start;
      next = entries_.upper_bound(before->first);
    }
  }
  while (next != entries_.end() && next->first < end) {
    if (next->second.end > end) entries_.emplace(end, next->second);
    next = entries_.erase(next);
  }
  entries_[start] = {end, static_cast<uint32_t>(name.data() - text_.data()), static_cast<uint32_t>(name.size())};
}

std::string WithoutTier(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos || colon + 1 >= name.size() ||
      std::string_view("~^+*").find(name[colon + 1]) == std::string_view::npos)
    return std::string(name);
  return std::string(name.substr(0, colon + 1)) + std::string(name.substr(colon + 2));
}

std::string_view PerfMap::Find(uint64_t address) const {
  auto after = entries_.upper_bound(address);
  if (after == entries_.begin()) return {};
  const Entry& entry = std::prev(after)->second;
  return address < entry.end ? std::string_view(text_).substr(entry.name, entry.length) : std::string_view();
}

}  // namespace holdfast
