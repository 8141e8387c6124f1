#include "report/fleet/live/kept_values.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/folder_names.h"
#include "report/builder/output_folder.h"

namespace holdfast {
namespace {

enum ValuesField : uint32_t { kOwner = 1, kTimeNanos = 2, kSampleIds = 3, kSampleValues = 4 };
constexpr size_t kMaxKeptBytes = 256 << 20;
constexpr time_t kForgottenS = 7 * 24 * 3600;

std::string KeptFileOf(const std::string& process, ProfileKind kind) {
  uint64_t hash = 0xcbf29ce484222325ull;  // the same in every build
  for (const char c : process) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return fmt::format("{:016x}.{}", hash, kProfileKindNames[static_cast<int>(kind)]);
}

// Opens our own folder; rejects one that another user has put there. `make`: creates it, and the output folder, which
// is missing if there is no exporter.
FileDescriptor OpenDeltaFolder(const std::string& out, bool make) {
  if (make && !OutputFolder::Open(out).ok()) return {};
  const FileDescriptor above(open(out.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!above.valid()) return {};
  if (make) mkdirat(above.get(), ".delta", 0700);
  FileDescriptor folder(openat(above.get(), ".delta", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!folder.valid() || fstat(folder.get(), &info) != 0 || info.st_uid != geteuid()) return {};
  return folder;
}

void RemoveForgotten(const FileDescriptor& folder) {
  ForEachName(folder.get(), [&](const char* name) {
    struct stat info;
    if (fstatat(folder.get(), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
        info.st_mtim.tv_sec < time(nullptr) - kForgottenS) {
      unlinkat(folder.get(), name, 0);
    }
  });
}

}  // namespace

std::string EncodeValues(const CumulativeValues& values) {
  std::vector<uint64_t> ids;
  std::vector<int64_t> numbers;
  for (const auto& [id, of_types] : values.all()) {
    ids.push_back(id);
    numbers.insert(numbers.end(), of_types.begin(), of_types.end());
  }
  std::string bytes;
  protozero::pbf_writer message(bytes);
  message.add_int64(kTimeNanos, values.time_nanos());
  message.add_packed_fixed64(kSampleIds, ids.begin(), ids.end());
  message.add_packed_int64(kSampleValues, numbers.begin(), numbers.end());
  return bytes;
}

std::optional<CumulativeValues> DecodeValues(std::string_view bytes) {
  CumulativeValues values;
  std::vector<uint64_t> ids;
  std::vector<int64_t> numbers;
  try {
    protozero::pbf_reader message(bytes.data(), bytes.size());
    while (message.next()) {
      if (message.tag() == kTimeNanos) {
        values.set_time_nanos(message.get_int64());
      } else if (message.tag() == kSampleIds) {
        const auto range = message.get_packed_fixed64();
        ids.assign(range.begin(), range.end());
      } else if (message.tag() == kSampleValues) {
        const auto range = message.get_packed_int64();
        numbers.assign(range.begin(), range.end());
      } else {
        message.skip();
      }
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  constexpr size_t kTypes = CumulativeValues::kMaxTypes;
  if (numbers.size() != ids.size() * kTypes) return std::nullopt;
  for (size_t i = 0; i < ids.size(); ++i) {
    CumulativeValues::Values of_types;
    for (size_t type = 0; type < kTypes; ++type) of_types[type] = numbers[i * kTypes + type];
    values.Put(ids[i], of_types);
  }
  return values;
}

std::optional<CumulativeValues> ReadKeptValues(const std::string& out, const std::string& process, ProfileKind kind) {
  const FileDescriptor folder = OpenDeltaFolder(out, /*make=*/false);
  if (!folder.valid()) return std::nullopt;
  const FileDescriptor file(openat(folder.get(), KeptFileOf(process, kind).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  const std::string bytes = ReadWhole(fmt::format("/proc/self/fd/{}", file.get()), kMaxKeptBytes);
  try {
    protozero::pbf_reader message(bytes);
    if (!message.next(kOwner) || message.get_string() != process) return std::nullopt;
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return DecodeValues(bytes);
}

void KeepValues(const std::string& out, const std::string& process, ProfileKind kind, const CumulativeValues& values) {
  const FileDescriptor folder = OpenDeltaFolder(out, /*make=*/true);
  if (!folder.valid()) return;
  const std::string name = KeptFileOf(process, kind), under = name + ".new";
  std::string bytes;
  protozero::pbf_writer(bytes).add_string(kOwner, process);
  bytes += EncodeValues(values);
  struct stat known;
  if (fstatat(folder.get(), name.c_str(), &known, AT_SYMLINK_NOFOLLOW) != 0) RemoveForgotten(folder);
  const FileDescriptor file(
      openat(folder.get(), under.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  std::string_view rest = bytes;
  while (file.valid() && !rest.empty()) {
    const ssize_t written = write(file.get(), rest.data(), rest.size());
    if (written <= 0) break;
    rest.remove_prefix(static_cast<size_t>(written));
  }
  // If the disk is full, the previous file remains. Another server then reports the changes since that file again.
  if (rest.empty() && renameat(folder.get(), under.c_str(), folder.get(), name.c_str()) == 0) return;
  unlinkat(folder.get(), under.c_str(), 0);
}

}  // namespace holdfast
