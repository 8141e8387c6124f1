#include "report/builder/written_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "report/base/file_descriptor.h"
#include "report/builder/without_rights.h"
#include "report/observe/table/process_info.h"
#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr size_t kAtOnce = 64;  // files open at a time
constexpr off_t kMaxBytes = 64 << 20;
constexpr uint64_t kMaxUnpackedProfile = uint64_t{1} << 30;

// The child's results: copied, and bounded again by the reader.
struct HandedOver {
  bool read, by_holdfast, is_sum;
  char process[512], program[512], kind[32];
  int64_t time_nanos;
  uint32_t values;
  int64_t totals[8];
};

template <size_t kCapacity>
void Put(std::string_view text, char (&to)[kCapacity]) {
  memcpy(to, text.data(), std::min(text.size(), kCapacity - 1));
}

template <size_t kCapacity>
std::string Take(const char (&from)[kCapacity]) {
  return std::string(from, strnlen(from, kCapacity));
}

void Read(int fd, HandedOver* to) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > kMaxBytes) return;
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  if (pread(fd, bytes.data(), bytes.size(), 0) != info.st_size) return;
  const absl::StatusOr<Profile> profile = DecodePprof(bytes, "", kMaxUnpackedProfile);
  if (!profile.ok()) return;
  const record::Process& process = profile->process();
  Put(process.id, to->process);
  Put(process.program, to->program);
  Put(process.kind, to->kind);
  to->by_holdfast = process.version.starts_with("holdfast ");
  to->is_sum = profile->records().merged.has_value();
  to->time_nanos = profile->time_nanos;
  const std::vector<int64_t> totals = TotalsOf(*profile);
  to->values = static_cast<uint32_t>(std::min(totals.size(), std::size(to->totals)));
  std::copy_n(totals.begin(), to->values, to->totals);
  to->read = true;
}

WrittenFile FileOf(const HandedOver& from) {
  WrittenFile file = {
      Take(from.process), Take(from.program), Take(from.kind), from.by_holdfast, from.is_sum, from.time_nanos, {}};
  const size_t values = std::min<size_t>(from.values, std::size(from.totals));
  file.totals.assign(from.totals, from.totals + values);
  return file;
}

}  // namespace

std::vector<int64_t> TotalsOf(const Profile& profile) {
  std::vector<int64_t> totals;
  for (size_t type = 0; type < profile.sample_types.size(); ++type) totals.push_back(profile.Total(type));
  return totals;
}

std::vector<std::optional<WrittenFile>> ReadWrittenFiles(const OutputFolder& output,
                                                         const std::vector<ProfileName>& names) {
  std::vector<std::optional<WrittenFile>> files(names.size());
  if (names.empty()) return files;
  constexpr size_t kShared = kAtOnce * sizeof(HandedOver);
  void* shared = mmap(nullptr, kShared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return files;
  auto* const handed = static_cast<HandedOver*>(shared);
  for (size_t start = 0; start < names.size(); start += kAtOnce) {
    const size_t count = std::min(kAtOnce, names.size() - start);
    memset(shared, 0, kShared);
    std::vector<FileDescriptor> open_files;
    std::vector<int> keep;
    for (size_t i = 0; i < count; ++i) {
      open_files.emplace_back(openat(output.folder().get(), names[start + i].ToString().c_str(),
                                     O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
      if (open_files.back().valid()) keep.push_back(open_files.back().get());
    }
    const auto read_all = [&] {
      for (size_t i = 0; i < count; ++i) Read(open_files[i].get(), &handed[i]);
      return true;
    };
    if (geteuid() != 0) {
      read_all();
    } else if (!RunWithoutRights(kNobody, kNobody, keep, 0, read_all).ok()) {
      continue;
    }
    for (size_t i = 0; i < count; ++i) {
      if (handed[i].read) files[start + i] = FileOf(handed[i]);
    }
  }
  munmap(shared, kShared);
  return files;
}

}  // namespace holdfast
