// A process that has a table and does nothing: what a profiled program is to the exporter.
//
//     FakeTarget target(tables_folder, out, [](MadeTable& table) { … });
//     target.header()->exit_request = 1;
//     target.Kill();
#ifndef HOLDFAST_TESTS_UNIT_FAKE_TARGET_H_
#define HOLDFAST_TESTS_UNIT_FAKE_TARGET_H_

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "report/observe/table/table_folder.h"
#include "sampler/contract/exporter_service.h"
#include "tests/unit/made_table.h"

namespace holdfast::testing {

inline uint64_t StartTicksOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; i < 22; ++i) fields >> field;
  uint64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

// A folder for tables, in memory as theirs is, that is removed again.
class TablesFolder {
 public:
  TablesFolder() {
    char name[] = "/dev/shm/holdfast-test.XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TablesFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(File(name), std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

// The mapping of a table file, as the target has it.
class MappedTable {
 public:
  explicit MappedTable(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) abort();
    size_ = static_cast<size_t>(info.st_size);
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
  }
  ~MappedTable() { munmap(memory_, size_); }
  MappedTable(const MappedTable&) = delete;
  TableHeader* header() const { return static_cast<TableHeader*>(memory_); }

 private:
  void* memory_;
  size_t size_;
};

class FakeTarget {
 public:
  using Fill = std::function<void(MadeTable&)>;
  static constexpr size_t kMoreBytes = 64 << 20;

  FakeTarget(const std::string& tables, const std::string& out, const Fill& fill = AddOneRow)
      : tables_(tables), out_(out) {
    int go[2], ready[2];
    if (pipe(go) != 0 || pipe(ready) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // never outlives a test that crashed
      close(go[1]);
      close(ready[0]);
      char path[512];
      const ssize_t length = read(go[0], path, sizeof path - 1);
      if (length <= 0) _exit(1);
      path[length] = '\0';
      const MappedTable mapped(path);
      signal(SIGUSR1, [](int) {
        // Written to: qemu-user ignores MAP_POPULATE.
        memset(mmap(nullptr, kMoreBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, kMoreBytes);
      });
      if (write(ready[1], "r", 1) != 1) _exit(1);
      while (true) pause();
    }
    close(go[0]);
    close(ready[1]);
    // Mapped before it gets its name, as the library does it: a table that nobody maps is a dead process's.
    path_ = WriteUnnamed(fill, 0x1000, 1);
    const std::string unnamed = path_ + ".new";
    char answer;
    if (write(go[1], unnamed.data(), unnamed.size()) < 0 || read(ready[0], &answer, 1) != 1) abort();
    rename(unnamed.c_str(), path_.c_str());
    Announce();
    close(go[1]);
    close(ready[0]);
  }
  ~FakeTarget() { Kill(); }
  // Makes kMoreBytes more resident, soon.
  void UseMoreMemory() const { kill(pid_, SIGUSR1); }
  FakeTarget(const FakeTarget&) = delete;

  static void AddOneRow(MadeTable& table) { table.AddHeapRow(table.AddStack({0x1001, 0x2001}), 100, 5, 2); }

  // Another table of the same process, which nobody maps. `image` tells them apart.
  std::string WriteTable(const Fill& fill, uint64_t image, int64_t start_monotonic_ns = 1) const {
    const std::string path = WriteUnnamed(fill, image, start_monotonic_ns);
    rename((path + ".new").c_str(), path.c_str());
    Announce();
    return path;
  }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  pid_t pid() const { return pid_; }
  const std::string& path() const { return path_; }

 private:
  void Announce() const { AnnounceTable(tables_.c_str(), out_.c_str(), FolderIdOf(out_)); }

  std::string WriteUnnamed(const Fill& fill, uint64_t image, int64_t start_monotonic_ns) const {
    MadeTable table(sizeof(TableHeader) + 64 * 1024);
    TableHeader& head = table.head();
    head.pid = static_cast<uint32_t>(pid_);
    head.uid = geteuid();
    head.start_ticks = StartTicksOf(pid_);
    head.image = image;
    head.start_monotonic_ns = start_monotonic_ns;
    struct stat info;
    if (stat("/proc/self/ns/pid", &info) == 0) head.pid_ns = info.st_ino;
    snprintf(head.out, sizeof head.out, "%s", out_.c_str());
    fill(table);
    char name[128];
    snprintf(name, sizeof name, "/holdfast.%u.%d.%llu.%016llx.table", geteuid(), pid_,
             static_cast<unsigned long long>(head.start_ticks), static_cast<unsigned long long>(image));
    table.WriteTo(tables_ + name + ".new");
    return tables_ + name;
  }

  std::string tables_, out_, path_;
  pid_t pid_ = -1;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_UNIT_FAKE_TARGET_H_
