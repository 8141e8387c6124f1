#include "report/run/shortened_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>
#include <string_view>

#include "fmt/format.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

// What a process has mapped of a file and may read.
struct MappedFile {
  uint64_t end = 0;  // the largest offset
  bool has_code = false;
  std::string any;  // a mapping, as in /proc/PID/map_files
  std::string path;
};

}  // namespace

std::string ShortenedFileOf(pid_t pid) {
  std::map<std::string, MappedFile> files;  // by device and inode
  std::istringstream maps(ReadOfProcess(pid, "maps"));
  for (std::string line; std::getline(maps, line);) {
    // "7f0000000000-7f0000028000 r--p 00001000 fe:00 4711    /usr/lib/libfoo.so"
    unsigned long start = 0, end = 0, offset = 0;
    char rights[5] = {}, device[24] = {}, inode[24] = {};
    const size_t path = line.find('/');
    if (path == std::string::npos ||
        sscanf(line.c_str(), "%lx-%lx %4s %lx %23s %23s", &start, &end, rights, &offset, device, inode) != 6)
      continue;
    MappedFile& file = files[fmt::format("{} {}", device, inode)];
    file.has_code = file.has_code || rights[2] == 'x';
    file.any = line.substr(0, line.find(' '));
    file.path = line.substr(path);
    // The dynamic linker reserves more than the file has, without rights.
    if (rights[0] == 'r') file.end = std::max<uint64_t>(file.end, offset + (end - start));
  }
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const auto& [id, file] : files) {
    if (!file.has_code) continue;
    // Only root may look behind the first. The second may be another file by now.
    struct stat info;
    const bool is_known =
        stat(fmt::format("/proc/{}/map_files/{}", pid, file.any).c_str(), &info) == 0 ||
        (stat((RootOfProcess(pid) + file.path).c_str(), &info) == 0 && id.ends_with(fmt::format(" {}", info.st_ino)));
    if (is_known && S_ISREG(info.st_mode) && file.end > (static_cast<uint64_t>(info.st_size) + page - 1) / page * page)
      return file.path;
  }
  return "";
}

}  // namespace holdfast
