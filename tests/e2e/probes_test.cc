// The USDT probes otel_memory:alloc and otel_memory:free, as a tracer of another product sees them: found by the notes in
// the file, with a breakpoint on each.
#include <elf.h>
#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/profiled.h"
#include "tests/support/uprobe.h"

namespace holdfast::testing {
namespace {

constexpr unsigned char kBreakpoint = 0xcc;

struct Probe {
  std::string provider, name, arguments;
  uint64_t address, semaphore;
};

// The notes of .note.stapsdt, as its format is published: address, base, semaphore; provider, name, arguments.
std::vector<Probe> ProbesIn(const std::string& file) {
  Elf64_Ehdr head;
  std::memcpy(&head, file.data(), sizeof head);
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  std::memcpy(sections.data(), file.data() + head.e_shoff, sections.size() * sizeof sections[0]);
  std::vector<Probe> probes;
  for (const Elf64_Shdr& section : sections) {
    const char* name = file.data() + sections[head.e_shstrndx].sh_offset + section.sh_name;
    if (std::strcmp(name, ".note.stapsdt") != 0) continue;
    for (size_t at = section.sh_offset; at < section.sh_offset + section.sh_size;) {
      Elf64_Nhdr note;
      std::memcpy(&note, file.data() + at, sizeof note);
      const char* text = file.data() + at + sizeof note + (note.n_namesz + 3) / 4 * 4;
      uint64_t words[3];
      std::memcpy(words, text, sizeof words);
      const std::string provider = text + sizeof words, probe = text + sizeof words + provider.size() + 1;
      const std::string arguments = text + sizeof words + provider.size() + probe.size() + 2;
      probes.push_back({provider, probe, arguments, words[0], words[2]});
      at = static_cast<size_t>(text - file.data()) + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return probes;
}

// Each is "8@%rdi": the size, and a register.
std::vector<uint64_t> ArgumentsOf(const Probe& probe, const user_regs_struct& registers) {
  const std::map<std::string, uint64_t> values = {
      {"rax", registers.rax}, {"rbx", registers.rbx}, {"rcx", registers.rcx}, {"rdx", registers.rdx},
      {"rsi", registers.rsi}, {"rdi", registers.rdi}, {"rbp", registers.rbp}, {"r8", registers.r8},
      {"r9", registers.r9},   {"r10", registers.r10}, {"r11", registers.r11}, {"r12", registers.r12},
      {"r13", registers.r13}, {"r14", registers.r14}, {"r15", registers.r15}};
  std::vector<uint64_t> arguments;
  std::istringstream words(probe.arguments);
  for (std::string word; words >> word;) {
    EXPECT_TRUE(word.starts_with("8@%")) << probe.arguments;
    arguments.push_back(values.at(word.substr(3)));
  }
  return arguments;
}

uint64_t EntryOf(pid_t pid) {
  const std::string auxiliary = ReadFile("/proc/" + std::to_string(pid) + "/auxv");
  for (size_t at = 0; at + sizeof(Elf64_auxv_t) <= auxiliary.size(); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t value;
    std::memcpy(&value, auxiliary.data() + at, sizeof value);
    if (value.a_type == AT_ENTRY) return value.a_un.a_val;
  }
  return 0;
}

// Returns the byte that was there.
unsigned char ReplaceByte(pid_t pid, uint64_t address, unsigned char by) {
  const uint64_t word = address & ~uint64_t{7};
  long bytes = ptrace(PTRACE_PEEKTEXT, pid, word, nullptr);
  unsigned char& byte = *(reinterpret_cast<unsigned char*>(&bytes) + (address - word));
  const unsigned char before = byte;
  byte = by;
  EXPECT_EQ(ptrace(PTRACE_POKETEXT, pid, word, bytes), 0);
  return before;
}

uint64_t WhereLoaded(pid_t pid, const std::string& library) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(library)) return std::stoull(line, nullptr, 16);
  }
  return 0;
}

class Probes : public Profiled {
 protected:
  struct Counts {
    uint64_t allocs = 0, frees = 0, bytes = 0, weight = 0, unknown_frees = 0;
    std::set<uint64_t> live;
  };

  // Runs the program with a breakpoint on each probe. Its threads are not traced: it has one.
  Counts Trace(const Command& command) {
    const std::vector<Probe> probes = ProbesIn(ReadFile(Library()));
    Counts counts;
    const pid_t pid = fork();
    if (pid == 0) {
      for (const auto& [name, value] : command.env) setenv(name.c_str(), value.c_str(), 1);
      std::vector<char*> argv;
      for (const std::string& argument : command.argv) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_EXITKILL);
    // Up to the program's entry: the library is loaded, and nothing has been allocated.
    const uint64_t entry = EntryOf(pid);
    const unsigned char first = ReplaceByte(pid, entry, kBreakpoint);
    ptrace(PTRACE_CONT, pid, nullptr, nullptr);
    waitpid(pid, &status, 0);
    ReplaceByte(pid, entry, first);
    user_regs_struct at_entry;
    ptrace(PTRACE_GETREGS, pid, nullptr, &at_entry);
    EXPECT_EQ(at_entry.rip, entry + 1);
    at_entry.rip = entry;
    ptrace(PTRACE_SETREGS, pid, nullptr, &at_entry);
    const uint64_t base = WhereLoaded(pid, Library());
    std::map<uint64_t, const Probe*> at;
    for (const Probe& probe : probes) {
      EXPECT_EQ(ReplaceByte(pid, base + probe.address, kBreakpoint), 0x90) << "no nop at a probe";
      at[base + probe.address] = &probe;
    }
    long signal = 0;
    while (ptrace(PTRACE_CONT, pid, nullptr, signal) == 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
      signal = WSTOPSIG(status);
      user_regs_struct registers;
      ptrace(PTRACE_GETREGS, pid, nullptr, &registers);
      const auto probe = at.find(registers.rip - 1);
      if (signal != SIGTRAP || probe == at.end()) continue;
      signal = 0;  // the instruction was a nop: the program continues after it
      const std::vector<uint64_t> arguments = ArgumentsOf(*probe->second, registers);
      if (probe->second->name == "alloc") {
        ++counts.allocs;
        counts.bytes += arguments.at(1);
        counts.weight += arguments.at(2);
        counts.live.insert(arguments.at(0));
      } else {
        ++counts.frees;
        counts.unknown_frees += counts.live.erase(arguments.at(0)) == 0 ? 1 : 0;
      }
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_TRUE(Settled());
    return counts;
  }
};

// The kernel's own probes, as an eBPF profiler uses them, count the same samples.
TEST_F(Probes, AreCountedByTheKernelsUprobes) {
  if (!HasUprobes()) GTEST_SKIP() << "the kernel has no uprobes";
  const Command command =
      CommandFor(Launch::kPreload, {ProgramPath("known_probes")}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    char opened;
    for (const auto& [name, value] : command.env) setenv(name.c_str(), value.c_str(), 1);
    if (read(gate[0], &opened, 1) == 1)
      execl(command.argv[0].c_str(), command.argv[0].c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  std::map<std::string, std::vector<Uprobe>> counters;
  bool refused = false;
  for (const Probe& probe : ProbesIn(ReadFile(Library()))) {
    Uprobe& counter = counters[probe.name].emplace_back(pid, Library(), probe.address);
    refused = refused || !counter.valid();
  }
  const bool goes = !refused && write(gate[1], "x", 1) == 1;
  close(gate[0]);
  close(gate[1]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (refused) GTEST_SKIP() << "the kernel permits no uprobes here";
  EXPECT_TRUE(goes);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(Settled());
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u);
  const int64_t allocated = heap[0].Total().at("alloc_objects"), in_use = heap[0].Total().at("inuse_objects");
  for (const auto& [name, probes] : counters) {
    int64_t sum = 0;
    for (const Uprobe& probe : probes) sum += probe.Count();
    EXPECT_EQ(sum, name == "alloc" ? allocated : allocated - in_use) << name;
  }
}

TEST_F(Probes, HaveNotesThatEveryTracerReads) {
  std::set<std::string> names, forms;
  for (const Probe& probe : ProbesIn(ReadFile(Library()))) {
    EXPECT_EQ(probe.provider, "otel_memory");
    EXPECT_EQ(probe.semaphore, 0u);
    names.insert(probe.name);
    forms.insert(probe.name + " " + probe.arguments);
  }
  // Of samples, in the registers of a call: the contract's first reader knows no others.
  if (forms.contains("free 8@x0")) {
    EXPECT_TRUE(forms.contains("alloc 8@x0 8@x1 8@x2"));
  } else {
    EXPECT_TRUE(forms.contains("alloc 8@%rdi 8@%rsi 8@%rdx") && forms.contains("free 8@%rdi"));
  }
  EXPECT_THAT(names, ::testing::ElementsAre("alloc", "free"));
  const RunResult readelf = Execute({.argv = {"readelf", "-n", Library()}});
  EXPECT_THAT(readelf.out, ::testing::HasSubstr("Provider: otel_memory"));
}

// At 64 KiB a few hundred samples; a seed, so that each run is alike.
class ProbesAt : public Probes, public ::testing::WithParamInterface<const char*> {};

TEST_P(ProbesAt, FireForEachSampleAndItsFree) {
  const Counts counts = Trace(CommandFor(Launch::kPreload, {ProgramPath("known_probes")},
                                         {{"heap-interval", GetParam()}, {"seed", "7"}, {"snapshot-every", "0"}}));
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  const Values total = heap[0].Total();
  EXPECT_GT(counts.allocs, 50u);
  EXPECT_GT(counts.frees, 20u);
  EXPECT_EQ(counts.unknown_frees, 0u);
  // Each weight is rounded to whole bytes, as each sum of the profile is.
  const double rounding = static_cast<double>(counts.allocs + heap[0].samples.size());
  EXPECT_NEAR(static_cast<double>(counts.weight), static_cast<double>(total.at("alloc_space")), rounding);
  if (std::string(GetParam()) == "1") {
    EXPECT_EQ(counts.allocs, static_cast<uint64_t>(total.at("alloc_objects")));
    EXPECT_EQ(counts.bytes, static_cast<uint64_t>(total.at("alloc_space")));
    EXPECT_EQ(counts.live.size(), static_cast<uint64_t>(total.at("inuse_objects")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ProbesAt, ::testing::Values("1", "16KiB", "512KiB"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace holdfast::testing
