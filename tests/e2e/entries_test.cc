// Allocators that are linked into the executable: what is said of them.
#include <elf.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/profiled.h"
#include "tests/support/uprobe.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LinkedAllocators : public Profiled {};

TEST_F(LinkedAllocators, DoctorSaysThatAMallocOfTheExecutableIsNotSeen) {
  const RunResult r = RunTool({"doctor", "--", ProgramPath("own_malloc")});
  EXPECT_TRUE(r.exited(1)) << r.Describe();
  EXPECT_THAT(
      r.out,
      HasSubstr("NO    allocator   own_malloc has an allocator linked in; the executable's allocator is not seen: "));
  EXPECT_THAT(r.out, Not(HasSubstr("reach it through the library")));
}

TEST_F(LinkedAllocators, RunSaysWhyThereIsNoHeapProfile) {
  // Without a seed, one run in a hundred samples a block of the C library and has a heap profile.
  const RunResult r = RunTool({"run", "--seed", "1", "-o", out(), "--", ProgramPath("own_malloc")});
  EXPECT_THAT(r.err, HasSubstr("own_malloc has an allocator linked in; the executable's allocator is not seen: "));
}

// glibc's free would abort.
TEST_F(LinkedAllocators, TheirBlocksAreFreedByNamesThatOnlyTheLibraryHas) {
  const RunResult r = RunTool({"run", "--entries", "no", "-o", out(), "--", ProgramPath("entry_cases_sized")});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("the executable's allocator is not seen: --entries is no"));
}

constexpr char kCannotTell[] =
    "whether they pass their calls on to another malloc, which is seen, or have memory of their own, which is not, "
    "cannot be told";

TEST_F(LinkedAllocators, AMallocThatPassesCallsOnIsSeenBelow) {
  const RunResult doctor = RunTool({"doctor", "--", ProgramPath("passes_malloc_on")});
  EXPECT_TRUE(doctor.exited(0)) << doctor.Describe();
  EXPECT_THAT(doctor.out, HasSubstr(std::string("note  allocator   the executable defines malloc and free itself: ") +
                                    kCannotTell));
  EXPECT_THAT(doctor.out, HasSubstr("expected: +8 instructions for malloc and free"));
  EXPECT_THAT(doctor.out, Not(HasSubstr("not seen: the allocator")));
  const RunResult run = RunTool({"run", "--heap-interval", "1", "-o", out(), "--", ProgramPath("passes_malloc_on")});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_THAT(run.err, Not(HasSubstr("allocator is not seen")));
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  EXPECT_GE(heap[0].Total().at("alloc_objects"), 100);
  EXPECT_THAT(heap[0].Comment("allocator").value_or(""), HasSubstr(kCannotTell));
}

// Its blocks are counted where they arrive, and only there.
TEST_F(LinkedAllocators, AMallocThatPassesCallsOnCountsOnce) {
  for (const char* interval : {"1", "64"}) {
    Command command = CommandFor(Launch::kPreload, {"passes_malloc_on"},
                                 {{"heap-interval", interval}, {"snapshot-every", "0"}, {"seed", "7"}});
    command.env["HOLDFAST_ENTRIES"] = "yes";
    const RunResult run = RunAndSettle(command);
    ASSERT_TRUE(run.exited(0)) << run.Describe();
    const std::vector<Decoded> heap = NewestHeap();
    ASSERT_EQ(heap.size(), 1u) << AllSummaries();
    EXPECT_THAT(heap[0].Comment("allocator").value_or(""), HasSubstr("are redirected at their entry"));
    EXPECT_EQ(heap[0].Comment("incomplete"), std::nullopt);
    // At 64 bytes a block of 200 has a chance of 0.956 and a weight of 1.046: 6 sigma of 100 blocks are 13.
    EXPECT_NEAR(static_cast<double>(heap[0].Total().at("alloc_objects")), 100, interval[0] == '1' ? 15 : 28);
    EXPECT_NEAR(static_cast<double>(heap[0].Total().at("inuse_objects")), 60, interval[0] == '1' ? 15 : 24);
    std::filesystem::remove_all(out());
  }
}

TEST_F(LinkedAllocators, AHiddenOneIsNamed) {
  const RunResult doctor = RunTool({"doctor", "--", ProgramPath("entry_cases_hidden")});
  EXPECT_TRUE(doctor.exited(1)) << doctor.Describe();
  EXPECT_THAT(doctor.out, HasSubstr("NO    allocator   entry_cases_hidden has an allocator linked in; "));
  EXPECT_THAT(doctor.out, HasSubstr("malloc is hidden: calls of it do not pass through the library"));
  EXPECT_THAT(doctor.out, Not(HasSubstr("ok    allocator")));
  const RunResult run = RunTool({"run", "-o", out(), "--", ProgramPath("entry_cases_hidden")});
  EXPECT_THAT(run.err, HasSubstr("malloc is hidden"));
}

// With -Wl,--exclude-libs,ALL. tcmalloc defines mmap itself, so the executable imports none; doctor and the process agree.
TEST_F(LinkedAllocators, AHiddenTcmallocIsFoundByItsOtherNames) {
  const std::string program = ProgramPath("linked_excluded_tcmalloc");
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "that archive is not installed";
  EXPECT_THAT(RunTool({"doctor", "--", program}).out,
              HasSubstr("functions of the executable's allocator are redirected"));
  const RunResult run = RunAs(Launch::kPreload, {program}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  EXPECT_EQ(heap[0].SumLeaf("measured_linked").at("alloc_objects"), 8192) << AllSummaries();
  EXPECT_THAT(heap[0].Comment("allocator").value_or(""),
              HasSubstr("functions of the executable's allocator are redirected"));
}

// As glibc's own locks, and those of an allocator in a library. The program's are, though the same function takes them.
TEST_F(LinkedAllocators, TheirLocksAreNotThePrograms) {
  const RunResult run = RunAs(Launch::kPreload, {"linked_locks"},
                              {{"heap-interval", "1"}, {"lock-interval", "1ns"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> block = Newest(out(), "block");
  ASSERT_EQ(block.size(), 1u) << AllSummaries();
  EXPECT_EQ(block[0].SumAny("waits_itself").at("contentions"), 5) << block[0].Summary();
  EXPECT_FALSE(block[0].Names("waits_in_malloc")) << block[0].Summary();
  EXPECT_THAT(RunTool({"locks", out()}).out, Not(HasSubstr("allocators")));
}

// It has dlsym and no way to map memory, as if it passed its calls on, and serves them from a static pool.
TEST_F(LinkedAllocators, AMallocWithAPoolBesideDlsymIsNotCalledSeen) {
  const std::string program = ProgramPath("own_malloc_dlsym");
  const RunResult doctor = RunTool({"doctor", "--", program});
  EXPECT_THAT(doctor.out, HasSubstr(std::string("note  allocator   the executable defines malloc and free itself: ") +
                                    kCannotTell));
  EXPECT_THAT(doctor.out, Not(HasSubstr("ok    allocator")));
  // With and without a heap profile: that has what operator new and the next malloc gave.
  for (const char* interval : {"1", "1GiB"}) {
    const RunResult run =
        RunTool({"run", "--heap-interval", interval, "--seed", "1", "--tables", tables(), "-o", out(), "--", program});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    EXPECT_EQ(NewestHeap().size(), interval == std::string("1") ? 1u : 0u) << AllSummaries();
    EXPECT_THAT(run.err, HasSubstr(kCannotTell)) << interval;
    std::filesystem::remove_all(out());
  }
}

// Doctor, the process and its profiles agree. Such functions may have a pool, or map memory and never give it back.
TEST_F(LinkedAllocators, FunctionsNamedLikeAnAllocatorsAreNotCalledUnseen) {
  const std::string passed =
      std::string("the executable has functions named like an allocator's (mi_heap_malloc): ") + kCannotTell;
  const std::string perhaps =
      "the executable has functions named like an allocator's (mi_malloc), but none that is tested: what they take from malloc is seen";
  for (const auto& [program, of_file, of_process] : {std::array<std::string, 3>{"wraps_as_mimalloc", passed, passed},
                                                     {"wraps_as_mimalloc_maps", perhaps, perhaps}}) {
    const RunResult doctor = RunTool({"doctor", "--", ProgramPath(program)});
    EXPECT_TRUE(doctor.exited(0)) << doctor.Describe();
    EXPECT_THAT(doctor.out, HasSubstr("note  allocator   " + of_file));
    EXPECT_THAT(doctor.out, HasSubstr("malloc and free are those of glibc"));
    Running running(
        CommandFor(Launch::kPreload, {program, "waits"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}}));
    ASSERT_TRUE(running.WaitForOutput("worked\n"));
    const RunResult of_pid = RunTool({"doctor", std::to_string(running.pid()), "--tables", tables()});
    EXPECT_THAT(of_pid.out, HasSubstr(of_file));
    EXPECT_THAT(of_pid.out, Not(HasSubstr("NO    allocator")));
    running.CloseInput();
    const RunResult run = running.Wait();
    EXPECT_TRUE(run.exited(0));
    EXPECT_TRUE(Settled());
    ExpectKnownHeap(run.out);
    const RunResult info = RunTool({"info", out()});
    EXPECT_THAT(info.out, HasSubstr(of_process));
    EXPECT_THAT(info.out, Not(HasSubstr("allocator is not seen")));
    EXPECT_THAT(info.out, Not(HasSubstr("only what is taken from others")));
    EXPECT_THAT(info.out, HasSubstr("allocator: " + of_process));
    std::filesystem::remove_all(out());
  }
}

// Changes symbols in the .symtab of a file. False: it has none.
template <typename Change>
bool ChangeSymbols(const std::string& path, Change change) {
  std::string file = ReadFile(path);
  Elf64_Ehdr head;
  std::memcpy(&head, file.data(), sizeof head);
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  std::memcpy(sections.data(), file.data() + head.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    for (uint64_t at = section.sh_offset; at < section.sh_offset + section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, file.data() + at, sizeof symbol);
      change(file.data() + sections[section.sh_link].sh_offset + symbol.st_name, symbol);
      std::memcpy(file.data() + at, &symbol, sizeof symbol);
    }
    WriteFile(path, file);
    return true;
  }
  return false;
}

// Names that a stripped executable lacks are in the file that .gnu_debuglink names, if it has the executable's build id.
TEST_F(LinkedAllocators, ADebugFileIsFoundByItsLink) {
  const std::string program = folder() + "/program", debug = folder() + "/program.debug";
  ASSERT_EQ(mkdir((folder() + "/.debug").c_str(), 0700), 0);
  std::filesystem::copy_file(ProgramPath("entry_cases_crate"), program);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"objcopy", "--only-keep-debug", program, debug},
        {"strip", program},
        {"objcopy", "--add-gnu-debuglink=" + debug, program}})
    ASSERT_EQ(Execute({.argv = words, .cwd = folder()}).status, 0) << words[0];
  const auto is_found = [&] {
    const RunResult doctor = RunTool({"doctor", "--", program});
    const RunResult run = RunTool({"run", "--heap-interval", "1", "--tables", tables(), "-o", out(), "--", program});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    const std::vector<Decoded> heap = NewestHeap();
    const bool in_process =
        heap.size() == 1 && heap[0].Comment("allocator").value_or("").find("are redirected") != std::string::npos;
    EXPECT_EQ(doctor.out.find("allocator are redirected") != std::string::npos, in_process) << doctor.out << run.err;
    std::filesystem::remove_all(out());
    return in_process;
  };
  EXPECT_TRUE(is_found());
  EXPECT_THAT(RunTool({"doctor", "--", program}).out, Not(HasSubstr("only exported functions have names in program")));
  std::filesystem::rename(debug, folder() + "/.debug/program.debug");
  EXPECT_TRUE(is_found());
  // A debug file of another build is not used.
  std::filesystem::remove(folder() + "/.debug/program.debug");
  ASSERT_EQ(Execute({.argv = {"objcopy", "--only-keep-debug", ProgramPath("entry_cases_plain"), debug}}).status, 0);
  EXPECT_FALSE(is_found());
}

// BOLT and fixed build ids: the functions in a debug file with this build id are elsewhere.
TEST_F(LinkedAllocators, ADebugFileOfAnotherLayoutIsRefused) {
  const std::string program = folder() + "/program", debug = folder() + "/program.debug";
  std::filesystem::copy_file(ProgramPath("entry_cases_crate"), program);
  ASSERT_EQ(Execute({.argv = {"objcopy", "--only-keep-debug", program, debug}}).status, 0);
  ASSERT_EQ(ChangeSymbols(debug,
                          [](const std::string& name, Elf64_Sym& symbol) {
                            if (name.starts_with("TCMallocInternal")) symbol.st_value += 1;
                          }),
            true);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"strip", program}, {"objcopy", "--add-gnu-debuglink=" + debug, program}})
    ASSERT_EQ(Execute({.argv = words, .cwd = folder()}).status, 0) << words[0];
  EXPECT_THAT(RunTool({"doctor", "--", program}).out, HasSubstr("is not where the debug file has it"));
  const RunResult run = RunTool({"run", "--heap-interval", "1", "--tables", tables(), "-o", out(), "--", program});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_THAT(RunTool({"info", out()}).out, HasSubstr("is not where the debug file has it"));
}

// Headers that neither the kernel nor the dynamic linker reads may be wrong. The library reads nothing that is not mapped.
TEST_F(LinkedAllocators, HeadersThatAreWrongAreNotFollowed) {
  constexpr uint64_t kNowhere = uint64_t{0x70} << 32;
  const std::string program = folder() + "/program";
  for (const char* what : {"notes", "restartable"}) {
    std::filesystem::remove(program);
    std::filesystem::copy_file(ProgramPath("entry_cases_restartable"), program);
    ASSERT_EQ(Execute({.argv = {"strip", program}}).status, 0);
    std::string file = ReadFile(program);
    Elf64_Ehdr head;
    std::memcpy(&head, file.data(), sizeof head);
    int changed = 0;
    const auto change = [&file, &changed](uint64_t at, auto header, auto change_one) {
      std::memcpy(&header, file.data() + at, sizeof header);
      if (!change_one(header)) return;
      std::memcpy(file.data() + at, &header, sizeof header);
      ++changed;
    };
    for (size_t i = 0; i < head.e_phnum && what[0] == 'n'; ++i) {
      change(head.e_phoff + i * sizeof(Elf64_Phdr), Elf64_Phdr{}, [](Elf64_Phdr& segment) {
        if (segment.p_type != PT_NOTE || segment.p_align != 4)
          return false;  // glibc reads those with an alignment of 8
        segment.p_vaddr = segment.p_paddr = kNowhere;
        return true;
      });
    }
    Elf64_Shdr names;
    std::memcpy(&names, file.data() + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
    for (size_t i = 0; i < head.e_shnum && what[0] == 'r'; ++i) {
      change(head.e_shoff + i * sizeof(Elf64_Shdr), Elf64_Shdr{}, [&](Elf64_Shdr& section) {
        if (std::string(file.data() + names.sh_offset + section.sh_name) != "__rseq_cs") return false;
        section.sh_addr = kNowhere;
        return true;
      });
    }
    ASSERT_GT(changed, 0) << what;
    WriteFile(program, file);
    const RunResult run = RunTool({"run", "--entries", "yes", "--tables", tables(), "-o", out(), "--", program});
    EXPECT_TRUE(run.exited(0)) << what << run.Describe();
    EXPECT_THAT(run.out, HasSubstr("wrong 0")) << what;
    std::filesystem::remove_all(out());
  }
}

// Nothing refers to operator new of a stripped executable with a C++ library of its own.
TEST_F(LinkedAllocators, OperatorsWithoutNamesMakeTheProfileIncomplete) {
  for (const char* name : {"tcmalloc", "snmalloc"}) {
    const std::string program = std::string("linked_calls_") + name + "_alone";
    if (!std::filesystem::exists(ProgramPath(program))) continue;
    const RunResult doctor = RunTool({"doctor", "--", ProgramPath(program)});
    EXPECT_THAT(doctor.out, HasSubstr("note  allocator"));
    EXPECT_THAT(doctor.out, HasSubstr("operator new beside a static C++ library"));
    const RunResult run = RunAs(Launch::kPreload, {program, "1"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
    ASSERT_TRUE(run.exited(0)) << run.Describe();
    const std::vector<Decoded> heap = NewestHeap();
    ASSERT_EQ(heap.size(), 1u) << AllSummaries();
    EXPECT_THAT(heap[0].Comment("incomplete").value_or(""), HasSubstr("install its debug file"));
    EXPECT_TRUE(RunTool({"leaks", out()}).exited(4));
    std::filesystem::remove_all(out());
  }
}

// Each start would take milliseconds: none of 12 MB of global names is an allocator's before the search ends.
TEST_F(LinkedAllocators, TheSearchForNamesEndsInVainEarly) {
  const std::string program = folder() + "/program";
  const auto doctor = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words = {"objcopy", "--wildcard"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {ProgramPath("entry_cases_of_many"), program});
    EXPECT_EQ(Execute({.argv = words}).status, 0);
    return RunTool({"doctor", "--", program}).out;
  };
  EXPECT_THAT(doctor({"--globalize-symbol=_ZN*"}), HasSubstr("of symbols are not read; --entries yes reads them"));
  const RunResult run =
      RunTool({"run", "--heap-interval", "1", "--tables", tables(), "-o", out(), "--entries", "yes", "--", program});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_EQ(NewestHeap().size(), 1u);
  // Local names are passed over.
  EXPECT_THAT(doctor({"--strip-symbol=none"}), HasSubstr("are redirected at their entry"));
}

// run's own option counts, not the environment of the tool.
// Its file could be redirected, but the process was told not to look for private names.
TEST_F(LinkedAllocators, DoctorAsksTheProcessAndNotItsFile) {
  Command command = CommandFor(Launch::kPreload, {"entry_cases_crate", "again"}, {{"heap-interval", "1"}});
  command.env["HOLDFAST_ENTRIES"] = "no";
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("worked\n"));
  const RunResult doctor = RunTool({"doctor", std::to_string(running.pid()), "--tables", tables()});
  EXPECT_TRUE(doctor.exited(1)) << doctor.Describe();
  EXPECT_THAT(doctor.out, HasSubstr("this process has redirected none of its functions"));
  EXPECT_THAT(doctor.out, Not(HasSubstr("are redirected at their entry")));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_TRUE(Settled());
  EXPECT_THAT(RunTool({"info", out()}).out, HasSubstr("which is not seen. --entries yes tries to redirect it"));
}

// Not a function that no list redirects, and not once --entries yes was of no use: mi_heap_malloc is alone.
TEST_F(LinkedAllocators, AnOptionIsOnlyNamedIfItMayHelp) {
  for (const char* name : {"mi_heap_malloc", "rpmalloc"}) {
    const std::string program = folder() + "/program";
    ASSERT_EQ(Execute({.argv = {"objcopy", "--redefine-sym", "mi_malloc=take", "--redefine-sym", "mi_free=give",
                                "--redefine-sym", std::string("mi_heap_malloc=") + name,
                                ProgramPath("wraps_as_mimalloc_maps"), program}})
                  .status,
              0);
    for (const std::string entries : {"auto", "yes"}) {
      const RunResult run = RunTool(
          {"run", "--entries", entries, "--heap-interval", "1", "--tables", tables(), "-o", out(), "--", program});
      EXPECT_TRUE(run.exited(0)) << run.Describe();
      const RunResult info = RunTool({"info", out()});
      EXPECT_THAT(info.out, HasSubstr(std::string("has an allocator of its own (") + name + "), which is not seen"));
      const bool may_help = name[0] == 'm' && entries == "auto";
      EXPECT_EQ(info.out.find("--entries yes tries") != std::string::npos, may_help) << name << entries;
      EXPECT_EQ(run.err.find("--entries yes") != std::string::npos, may_help) << run.err;
      std::filesystem::remove_all(out());
    }
  }
}

TEST_F(LinkedAllocators, RunNamesItsOwnOption) {
  const RunResult r = RunTool({"run", "--entries", "yes", "-o", out(), "--", ProgramPath("entry_cases_short")});
  EXPECT_THAT(r.err, HasSubstr("free is too short for a jump"));
  EXPECT_THAT(r.err, Not(HasSubstr("--entries yes tries it")));
}

// The library reads the table at the start of the program, and would make its size resident at once.
TEST_F(LinkedAllocators, ASymbolTableBeyondTheEndOfItsFileIsNotRead) {
  std::string file = ReadFile(ProgramPath("own_malloc"));
  Elf64_Ehdr head;
  std::memcpy(&head, file.data(), sizeof head);
  bool is_changed = false;
  for (size_t i = 0; i < head.e_shnum; ++i) {
    char* const at = file.data() + head.e_shoff + i * sizeof(Elf64_Shdr);
    Elf64_Shdr section;
    std::memcpy(&section, at, sizeof section);
    if (section.sh_type != SHT_SYMTAB) continue;
    section.sh_size = (uint64_t{256} << 20) / sizeof(Elf64_Sym) * sizeof(Elf64_Sym);
    std::memcpy(at, &section, sizeof section);
    is_changed = true;
  }
  ASSERT_TRUE(is_changed);
  const std::string program = out() + "-own_malloc", preload = "LD_PRELOAD=" + Library();
  std::ofstream(program, std::ios::binary) << file;
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const pid_t child = fork();
  if (child == 0) {
    execle(program.c_str(), program.c_str(), nullptr,
           std::array<const char*, 3>{preload.c_str(), "HOLDFAST_EXPORTER=no", nullptr}.data());
    _exit(127);
  }
  int status = 0;
  struct rusage usage {};
  ASSERT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_LT(usage.ru_maxrss, 128 << 10);  // KiB
  std::filesystem::remove(program);
}

// The tool looks for messages of allocators, and must not find its own.
TEST_F(LinkedAllocators, TheToolHasNone) {
  EXPECT_THAT(RunTool({"doctor", "--", Tool()}).out, Not(HasSubstr("linked in, without symbols")));
}

// ---- What is said of each state, wherever a user looks ----

struct State {
  const char *program, *entries;
  const char* in_file;     // what a check of the file finds
  const char* in_process;  // what the process finds, and its profiles say
  int doctor;              // exit code
};
std::ostream& operator<<(std::ostream& out, const State& state) { return out << state.program; }

// What a page shows, as the report's script unpacks it.
std::string PageData(const std::string& path) {
  const std::string page = ReadFile(path), start = "id=\"data\">";
  const size_t begin = page.find(start) + start.size();
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string packed;
  uint32_t bits = 0;
  int count = 0;
  for (size_t at = begin; at < page.size() && letters.find(page[at]) != std::string::npos; ++at) {
    bits = bits << 6 | static_cast<uint32_t>(letters.find(page[at]));
    count += 6;
    if (count >= 8) packed.push_back(static_cast<char>(bits >> (count -= 8) & 0xff));
  }
  std::string text(1 << 20, '\0');
  z_stream stream{};
  inflateInit2(&stream, -15);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  inflate(&stream, Z_FINISH);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

class LinkedAllocatorStates : public Profiled, public ::testing::WithParamInterface<State> {};

TEST_P(LinkedAllocatorStates, AreSaidByDoctorRunInfoAndThePage) {
  const State& state = GetParam();
  const std::string path = ProgramPath(state.program);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << state.program;
  Command doctor;
  doctor.argv = {Tool(), "doctor", "--", path};
  doctor.env["HOLDFAST_ENTRIES"] = state.entries;
  const RunResult of_file = Execute(doctor);
  EXPECT_THAT(of_file.out, HasSubstr(state.in_file));
  EXPECT_TRUE(of_file.exited(state.doctor)) << of_file.Describe();

  Command command = CommandFor(Launch::kPreload, {state.program, "again"}, {{"heap-interval", "1"}});
  command.env["HOLDFAST_ENTRIES"] = state.entries;
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("worked\n"));
  const RunResult of_process = RunTool({"doctor", std::to_string(running.pid()), "--tables", tables()});
  EXPECT_THAT(of_process.out, HasSubstr(state.in_process));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_TRUE(Settled());
  EXPECT_THAT(RunTool({"info", out()}).out, HasSubstr(state.in_process));
  const std::string page = folder() + "/page.html";
  EXPECT_TRUE(RunTool({"html", out(), "-o", page}).exited(0));
  EXPECT_THAT(PageData(page), HasSubstr(state.in_process));

  const RunResult run = RunTool(
      {"run", "--entries", state.entries, "--heap-interval", "1", "--tables", tables(), "-o", out(), "--", path});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_THAT(run.err, HasSubstr(state.in_process));
}

constexpr char kAllFour[] = "allocator are redirected at their entry";
INSTANTIATE_TEST_SUITE_P(
    All, LinkedAllocatorStates,
    ::testing::Values(
        State{"entry_cases_plain", "yes", kAllFour, kAllFour, 0},
        State{"entry_cases_short", "yes", "free is too short for a jump", "free is too short for a jump", 1},
        State{"entry_cases_copied", "yes", "free has a copy (.part, .constprop)", "free has a copy (.part, .constprop)",
              1},
        State{"entry_cases_thunk", "auto", "is none that is tested: --entries yes", "is none that is tested", 1},
        State{"entry_cases_loop", "no", "--entries is no", "--entries is no", 1},
        State{"own_malloc_dlsym", "auto", kCannotTell, kCannotTell, 0},
        State{"entry_cases_hidden", "auto", "malloc is hidden", "malloc is hidden", 1},
        State{"entry_cases_inlined", "yes", kAllFour, "some of its functions are inlined (-flto)", 0},
        State{"entry_cases_uncalled", "yes", "is inlined into functions of the program (-flto)",
              "is inlined into functions of the program (-flto)", 0},
        State{"entry_cases_heaps", "yes", kAllFour, "frees many blocks at once", 0},
        State{"linked_calls_tcmalloc_stripped", "auto", "cannot tell whether the executable's allocator is inlined",
              "cannot tell whether the executable's allocator is inlined", 0},
        State{"linked_calls_jemalloc_stripped", "auto", "install its debug file", "install its debug file", 0}),
    [](const auto& info) { return std::string(info.param.program); });

// As `strip --strip-section-headers` leaves it: its exported names are found by its dynamic segment.
TEST_F(LinkedAllocators, OneWithoutSectionsIsRedirectedAndDoctorSaysSo) {
  const std::string program = ProgramPath("linked_pairs_jemalloc"), path = folder() + "/without_sections";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "needs linked_pairs_jemalloc";
  std::string bytes = ReadFile(program);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
  std::memcpy(bytes.data(), &header, sizeof header);
  WriteFile(path, bytes);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const RunResult doctor = RunTool({"doctor", "--", path});
  EXPECT_TRUE(doctor.exited(0)) << doctor.Describe();
  EXPECT_THAT(doctor.out, HasSubstr("without_sections has jemalloc linked in; all "));
  EXPECT_THAT(doctor.out, Not(HasSubstr("no build id")));
  EXPECT_THAT(doctor.out, HasSubstr("install its debug file"));
  const RunResult run = RunTool({"run", "--heap-interval", "1", "-o", out(), "--", path});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  EXPECT_THAT(heap[0].Comment("allocator").value_or(""), HasSubstr("exported functions of the executable's allocator"));
}

// The process does not read all of its own file: the exporter does.
TEST_F(LinkedAllocators, OneWithoutSymbolsIsNamedInItsProfiles) {
  const std::string path = folder() + "/stripped";
  std::filesystem::copy_file(ProgramPath("speaks_as_allocator"), path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  file.seekp(static_cast<std::streamoff>(bytes.find("room for a message of an allocator")));
  file << "<jemalloc>: out of memory";
  file.close();
  const RunResult run = RunTool({"run", "--heap-interval", "1", "--tables", tables(), "-o", out(), "--", path});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  const std::string text = "jemalloc linked in, without symbols: what it takes from that is not seen";
  EXPECT_THAT(run.err, HasSubstr(text));
  EXPECT_THAT(RunTool({"info", out()}).out, HasSubstr(text));
  const std::string page = folder() + "/page.html";
  EXPECT_TRUE(RunTool({"html", out(), "-o", page}).exited(0));
  EXPECT_THAT(PageData(page), HasSubstr(text));
}

// Their functions are not redirected, and calls of them pass by the library.
TEST_F(LinkedAllocators, AllocatorsOfPluginsAreNamedInTheProfiles) {
  const std::string bound = " has a malloc of its own, bound by -Bsymbolic or protected visibility: what ";
  for (const auto& [form, has, unseen] : {std::array<std::string, 3>{"hidden", " has a hidden malloc of its own: what ",
                                                                     " itself takes from it is not seen"},
                                          {"symbolic", bound, " itself takes from it is not seen"},
                                          {"protected", bound, " itself takes from it is not seen"},
                                          {"named", " has an allocator of its own (mi_heap_malloc): calls of it by ",
                                           " itself, and by libraries that dlopen loads, are not seen"}}) {
    const std::string plugin = "private_allocator_" + form + ".so";
    const std::string text = plugin + has + plugin + unseen;
    Running running(
        CommandFor(Launch::kPreload, {"loads_private_allocator", ProgramPath(plugin)}, {{"heap-interval", "1"}}));
    ASSERT_TRUE(running.WaitForOutput("worked\n"));
    EXPECT_THAT(RunTool({"doctor", std::to_string(running.pid()), "--tables", tables()}).out, HasSubstr(text));
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
    EXPECT_TRUE(Settled());
    EXPECT_THAT(RunTool({"info", out()}).out, HasSubstr("allocator: " + text));
    const std::string page = folder() + "/page.html";
    EXPECT_TRUE(RunTool({"html", out(), "-o", page}).exited(0));
    EXPECT_THAT(PageData(page), HasSubstr(text));
    const RunResult run = RunTool({"run", "--heap-interval", "1", "--tables", tables(), "-o", out(), "--",
                                   ProgramPath("loads_private_allocator"), ProgramPath(plugin)});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    EXPECT_THAT(run.err, HasSubstr(text));
    std::filesystem::remove_all(out());
  }
}

// A stripped allocator is known by its messages alone.
TEST_F(LinkedAllocators, DoctorNamesOneWithoutSymbols) {
  const std::string path = folder() + "/stripped";
  std::filesystem::copy_file(ProgramPath("nothing"), path);
  EXPECT_THAT(RunTool({"doctor", "--", path}).out, Not(HasSubstr("linked in, without symbols")));
  for (const auto& [message, allocator] : {std::pair<const char*, const char*>{"<jemalloc>: out of memory", "jemalloc"},
                                           {"mimalloc: warning: ", "mimalloc"},
                                           {"Failed to initialise snmalloc.", "snmalloc"},
                                           {"tcmalloc: large alloc ", "tcmalloc"}}) {
    std::filesystem::copy_file(ProgramPath("speaks_as_allocator"), path,
                               std::filesystem::copy_options::overwrite_existing);
    // The program has room for the message in its constant data.
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const size_t at = bytes.find("room for a message of an allocator");
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(message, static_cast<std::streamsize>(std::char_traits<char>::length(message)));
    file.close();
    const RunResult r = RunTool({"doctor", "--", path});
    EXPECT_TRUE(r.exited(1)) << r.Describe();
    EXPECT_THAT(r.out,
                HasSubstr(std::string("NO    allocator   stripped has ") + allocator +
                          " linked in, without symbols: what it takes from that is not seen; install its debug"));
  }
}

// ---- Redirected at their entry ----

class LinkedCalls : public Profiled, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string program(const std::string& form) const { return std::string("linked_calls_") + GetParam() + "_" + form; }
  bool IsThere() const { return std::filesystem::exists(ProgramPath(program("full"))); }
};

TEST_P(LinkedCalls, AreRecordedToTheByte) {
  if (!IsThere()) GTEST_SKIP() << "that archive is not installed";
  for (const char* threads : {"1", "4"}) {
    const RunResult run =
        RunAs(Launch::kPreload, {program("full"), threads}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
    ASSERT_TRUE(run.exited(0)) << run.Describe();
    const std::vector<Decoded> heap = NewestHeap();
    ASSERT_EQ(heap.size(), 1u) << AllSummaries();
    ExpectKnownHeap(run.out);
    EXPECT_THAT(heap[0].Comment("allocator").value_or(""),
                HasSubstr("functions of the executable's allocator are redirected"));
    EXPECT_EQ(heap[0].Comment("incomplete"), std::nullopt);
    EXPECT_EQ(heap[0].Comment("losses"), "none");
    std::filesystem::remove_all(out());
  }
}

// The names stay in .dynsym, because libc and libstdc++ refer to them.
TEST_P(LinkedCalls, AreAllSeenInAStrippedProgram) {
  if (!IsThere()) GTEST_SKIP() << "that archive is not installed";
  const RunResult run =
      RunAs(Launch::kPreload, {program("stripped"), "4"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  int64_t objects = 0, bytes = 0;
  for (const Known& one : KnownHeap(run.out)) {
    objects += one.alloc_objects;
    bytes += one.alloc_space;
  }
  // Besides, libc and libstdc++ allocate a little: buffers, threads.
  EXPECT_GE(heap[0].Total().at("alloc_objects"), objects);
  EXPECT_LT(heap[0].Total().at("alloc_objects"), objects + 50);
  EXPECT_GE(heap[0].Total().at("alloc_space"), bytes);
}

TEST_P(LinkedCalls, ChangeNothingAtAnyInterval) {
  if (!IsThere()) GTEST_SKIP() << "that archive is not installed";
  for (const char* interval : {"512KiB", "4KiB", "300"}) {
    const RunResult run = RunAs(Launch::kPreload, {program("full"), "4"}, {{"heap-interval", interval}, {"seed", "5"}});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    EXPECT_THAT(run.out, HasSubstr("wrong 0")) << interval;
    EXPECT_EQ(run.err, "") << interval;
  }
}

TEST_P(LinkedCalls, DoctorSaysThatAllAreRedirectedOrThatItCannotTell) {
  if (!IsThere()) GTEST_SKIP() << "that archive is not installed";
  for (const char* form : {"full", "stripped"}) {
    const RunResult r = RunTool({"doctor", "--", ProgramPath(program(form))});
    // Without names it cannot be known whether the program calls other functions of jemalloc or mimalloc, and whether it has
    // parts of the others in its own functions.
    const std::string built_as = GetParam();
    const std::string allocator = built_as == "mimalloc3"        ? "mimalloc"
                                  : built_as == "googletcmalloc" ? "tcmalloc"
                                                                 : built_as;
    const bool has_names = std::string(form) == "full",
               has_operators = allocator == "tcmalloc" || allocator == "snmalloc";
    EXPECT_THAT(r.out, HasSubstr(std::string(has_names ? "ok    " : "note  ") + "allocator   " + program(form) +
                                 " has " + allocator + " linked in; all "));
    EXPECT_THAT(r.out, HasSubstr("functions of the executable's allocator are redirected at their entry"));
    EXPECT_EQ(r.out.find("direct calls of the allocator's other functions") != std::string::npos,
              !has_names && !has_operators)
        << r.out;
    EXPECT_EQ(r.out.find("cannot tell whether the executable's allocator is inlined") != std::string::npos,
              !has_names && has_operators)
        << r.out;
    EXPECT_THAT(r.out, HasSubstr("expected: up to +12 instructions for malloc and free of a tested allocator, "));
  }
}

// The executable's mmap is called instead of the library's. Profiles of every kind say so, and an allocator that is recorded
// does not hide that.
TEST_F(LinkedAllocators, AnOwnMmapIsNamedInTheProfiles) {
  const std::string path = ProgramPath("own_mmap_unseen");
  const RunResult run =
      RunTool({"run", "--heap-interval", "1", "--entries", "yes", "--tables", tables(), "-o", out(), "--", path});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  const std::string text = "the executable defines mmap itself: calls of it are not in map profiles";
  EXPECT_THAT(run.err, HasSubstr("are redirected at their entry; " + text));
  EXPECT_THAT(RunTool({"info", out()}).out, HasSubstr("are redirected at their entry; " + text));
  EXPECT_THAT(RunTool({"top", out()}).out, HasSubstr(text));
  EXPECT_THAT(RunTool({"doctor", "--", path}).out, HasSubstr("mappings    " + text));
  const std::string page = folder() + "/page.html";
  EXPECT_TRUE(RunTool({"html", out(), "-o", page}).exited(0));
  EXPECT_THAT(PageData(page), HasSubstr(text));
}

// As gperftools' tcmalloc has it: the function calls `syscall`.
TEST_F(LinkedAllocators, AnOwnMmapThatCallsSyscallIsRecorded) {
  const std::string path = ProgramPath("own_mmap_seen");
  const RunResult run = RunTool({"run", "--entries", "yes", "--tables", tables(), "-o", out(), "--", path});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> map = Newest(out(), "map");
  ASSERT_EQ(map.size(), 1u) << AllSummaries();
  EXPECT_EQ(map[0].SumLeaf("mmap").at("alloc_space"), 64 << 20) << AllSummaries();
  EXPECT_THAT(RunTool({"info", out()}).out, Not(HasSubstr("defines mmap")));
  EXPECT_THAT(RunTool({"doctor", "--", path}).out, Not(HasSubstr("defines mmap")));
  const std::string tcmalloc = ProgramPath("linked_calls_tcmalloc_full");
  if (std::filesystem::exists(tcmalloc)) {
    EXPECT_THAT(RunTool({"doctor", "--", tcmalloc}).out, Not(HasSubstr("defines mmap")));
  }
}

// It takes its memory from [heap], as glibc does.
TEST_F(LinkedAllocators, MemoryDoesNotCallTcmallocGlibc) {
  if (!std::filesystem::exists(ProgramPath("linked_waits_tcmalloc"))) GTEST_SKIP() << "that archive is not installed";
  Running running(CommandFor(Launch::kPreload, {"linked_waits_tcmalloc"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult memory = RunTool({"memory", std::to_string(running.pid()), "--tables", tables()});
  EXPECT_THAT(memory.out, HasSubstr("allocator beyond"));
  EXPECT_THAT(memory.out, Not(HasSubstr("glibc:"))) << memory.Describe();
}

// Its first allocation, in libstdc++'s constructor, creates the thread.
TEST_F(LinkedAllocators, JemallocMayHaveBackgroundThreads) {
  if (!std::filesystem::exists(ProgramPath("linked_calls_jemalloc_full")))
    GTEST_SKIP() << "that archive is not installed";
  Command command = CommandFor(Launch::kPreload, {"linked_calls_jemalloc_full", "4"},
                               {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  command.env["MALLOC_CONF"] = "background_thread:true";
  const RunResult run = RunAndSettle(command);
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  ExpectKnownHeap(run.out);
  EXPECT_THAT(heap[0].Comment("allocator").value_or(""),
              HasSubstr("functions of the executable's allocator are redirected"));
  const std::vector<Decoded> threads = Newest(out(), "threads");
  ASSERT_EQ(threads.size(), 1u) << AllSummaries();
  EXPECT_GE(threads[0].Total().at("created"), 4) << "the background thread, and three of the program";
}

// What the program frees by sdallocx would count as live.
TEST_F(LinkedAllocators, OneWithoutNamesLetsLeaksDrawNoConclusion) {
  if (!std::filesystem::exists(ProgramPath("linked_calls_jemalloc_stripped")))
    GTEST_SKIP() << "that archive is not installed";
  const RunResult run = RunAs(Launch::kPreload, {"linked_calls_jemalloc_stripped", "1"},
                              {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  EXPECT_THAT(heap[0].Comment("incomplete").value_or(""), HasSubstr("install its debug file"));
  const RunResult leaks = RunTool({"leaks", out()});
  EXPECT_TRUE(leaks.exited(4)) << leaks.Describe();
}

INSTANTIATE_TEST_SUITE_P(All, LinkedCalls,
                         ::testing::Values("jemalloc", "tcmalloc", "mimalloc", "mimalloc3", "snmalloc",
                                           "googletcmalloc"),
                         [](const auto& info) { return std::string(info.param); });

// jemalloc with prefixed names, as redis and Rust crates build it: redirected by default, beside glibc's malloc.
class PrefixedCalls : public Profiled, public ::testing::WithParamInterface<const char*> {};

TEST_P(PrefixedCalls, AreRecordedToTheByte) {
  const std::string program = std::string("prefixed_calls_") + GetParam();
  if (!std::filesystem::exists(ProgramPath(program))) GTEST_SKIP() << "needs libjemalloc.a";
  for (const char* interval : {"300", "1"}) {
    std::filesystem::remove_all(out());
    const RunResult run = RunAs(Launch::kPreload, {program}, {{"heap-interval", interval}, {"snapshot-every", "0"}});
    ASSERT_TRUE(run.exited(0)) << interval << run.Describe();
    if (interval[0] == '1') ExpectKnownHeap(run.out);
  }
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  const std::string all = "functions of the executable's allocator are redirected at their entry";
  EXPECT_THAT(heap[0].Comment("allocator").value_or(""), HasSubstr(all));
  EXPECT_EQ(heap[0].Comment("incomplete"), std::nullopt);
  EXPECT_THAT(RunTool({"doctor", "--", ProgramPath(program)}).out,
              AllOf(HasSubstr("ok    allocator   " + program + " has jemalloc linked in; all "), HasSubstr(all)));
}

INSTANTIATE_TEST_SUITE_P(All, PrefixedCalls, ::testing::Values("je_", "_rjem_"),
                         [](const auto& info) { return info.param[0] == '_' ? "rjem" : "je"; });

// None of these allocators has a slow path with a name that is known.
std::string AllRedirected(int functions) {
  return "all " + std::to_string(functions) +
         " functions of the executable's allocator are redirected at their entry; cannot tell whether the executable's "
         "allocator is inlined into functions of the program (-flto): no call of its slow path is known";
}

// One program for each condition.
class EntryCases : public Profiled {
 protected:
  Command CommandOf(const std::vector<std::string>& words, const std::string& interval = "1") {
    Command command = CommandFor(Launch::kPreload, words, {{"heap-interval", interval}, {"snapshot-every", "0"}});
    command.env["HOLDFAST_ENTRIES"] = "yes";
    return command;
  }
  RunResult RunCase(const std::string& name, const std::string& interval = "1", const char* argument = nullptr) {
    std::vector<std::string> words = {"entry_cases_" + name};
    if (argument != nullptr) words.emplace_back(argument);
    return RunAndSettle(CommandOf(words, interval));
  }
  RunResult RunForbidden(const std::string& how, const std::string& program) {
    Command command = CommandOf({"denies_code_changes", how, ProgramPath(program)});
    command.env["THEN_PRELOAD"] = command.env["LD_PRELOAD"];
    command.env.erase("LD_PRELOAD");
    return RunAndSettle(command);
  }
  // The profile of the only process, in which all functions of the allocator are redirected.
  Decoded OnlyHeap(int functions) {
    std::vector<Decoded> heap = NewestHeap();
    EXPECT_EQ(heap.size(), 1u) << AllSummaries();
    if (heap.empty()) return {};
    EXPECT_EQ(heap[0].Comment("allocator"), AllRedirected(functions));
    return std::move(heap[0]);
  }
  void ExpectAllFourRecorded(const RunResult& run) {
    ASSERT_TRUE(run.exited(0)) << run.Describe();
    OnlyHeap(4);
    ExpectKnownHeap(run.out);
  }
  // At each interval the program runs as ever; what it says of its blocks is recorded at interval 1.
  void ExpectRecordedAtEach(const std::string& name, const std::vector<std::string>& intervals, int functions) {
    for (const std::string& interval : intervals) {
      std::filesystem::remove_all(out());
      const RunResult run = RunCase(name, interval);
      ASSERT_TRUE(run.exited(0)) << interval << run.Describe();
      EXPECT_THAT(run.out, HasSubstr("wrong 0"));
      if (interval != "1") continue;
      ExpectKnownHeap(run.out);
      OnlyHeap(functions);
    }
  }
};

TEST_F(EntryCases, RedirectedFunctionsAreRecordedToTheByte) {
  for (const char* name : {"plain", "thunk", "endbr", "flags", "adds", "far_loop", "loop", "sized", "own_copy",
                           "shared", "unnamed", "moved_call", "crosses", "folded", "brk", "two_pages"}) {
    const RunResult run = RunCase(name);
    SCOPED_TRACE(name);
    ExpectAllFourRecorded(run);
    std::filesystem::remove_all(out());
  }
}

// A jump of 2 bytes before padding; a first instruction that is undone before the hook; what stays as it is, because it leads
// on to malloc or frees nothing. A uprobe on such a jump that goes writes its first byte back.
TEST_F(EntryCases, TinyFunctionsAreRecordedToTheByte) { ExpectRecordedAtEach("tiny", {"512KiB", "300", "1"}, 9); }

// Their size is only known afterwards. One takes its block from malloc, and may write to a buffer of its caller, or fail.
TEST_F(EntryCases, FunctionsThatCopyATextAreRecordedToTheByte) {
  ExpectRecordedAtEach("copies", {"512KiB", "30", "1"}, 7);
}

// A jump from one entry to another is one call, of the size that the program asked for: the other one gets a larger size.
TEST_F(EntryCases, CallsThatJumpToAnotherEntryCountOnce) {
  const RunResult every = RunCase("short_jumps");
  ASSERT_TRUE(every.exited(0)) << every.Describe();
  ExpectKnownHeap(every.out);
  OnlyHeap(8);
  std::filesystem::remove_all(out());
  const RunResult run = RunCase("short_jumps", "1000");
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  for (const Known& known : KnownHeap(run.out)) {
    if (known.alloc_objects < 1000) continue;
    const auto space = static_cast<double>(heap[0].SumLeaf(known.function).at("alloc_space"));
    // At least 1,000 KB, so 1,000 samples: 20 % are 6 sigma.
    EXPECT_NEAR(space / static_cast<double>(known.alloc_space), 1, 0.2) << known.function;
  }
}

// gcc's -fipa-ra: the caller keeps values in registers that a call may overwrite. Each sample and each free of one takes
// the slow path.
TEST_F(EntryCases, RegistersThatTheCallerKeepStay) {
  for (const char* interval : {"1", "200", "512KiB"}) {
    std::filesystem::remove_all(out());
    Command command = CommandOf({"entry_cases_keeps"}, interval);
    command.env["LD_PRELOAD"] += " " + ProgramPath("wide_strlen.so");
    const RunResult run = RunAndSettle(command);
    EXPECT_TRUE(run.exited(0)) << interval << run.Describe();
    EXPECT_THAT(run.out, HasSubstr("wrong 0")) << interval;
    if (interval[0] != '1') continue;
    ExpectKnownHeap(run.out);
    EXPECT_EQ(OnlyHeap(5).SumLeaf("changed_registers").at("alloc_objects"), 1000);
  }
}

TEST_F(EntryCases, ChildrenOfForkAndExecAreRecordedToo) {
  const RunResult run = RunCase("plain", "1", "child");
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  // The program, its forked child, and what that executed: each does the same, and its profile has only what it does itself.
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 3u) << AllSummaries();
  int forked = 0;
  for (const Decoded& one : heap) {
    forked += one.Comment("forked from pid").has_value();
    EXPECT_EQ(one.Comment("allocator"), AllRedirected(4));
    EXPECT_EQ(one.SumLeaf("kept"),
              (Values{{"alloc_objects", 100}, {"alloc_space", 10000}, {"inuse_objects", 100}, {"inuse_space", 10000}}));
    EXPECT_EQ(one.SumLeaf("passing"),
              (Values{{"alloc_objects", 100}, {"alloc_space", 20000}, {"inuse_objects", 0}, {"inuse_space", 0}}));
  }
  EXPECT_EQ(forked, 1) << AllSummaries();
}

TEST_F(EntryCases, OneConditionThatFailsRefusesAll) {
  const std::map<std::string, std::string> reasons = {
      {"short", "free is too short for a jump"},
      {"calls", "free calls another object in its first bytes (-pg does)"},
      {"loops", "free has a loop instruction in its first bytes"},
      {"resolver", "free is chosen at run time (ifunc)"},
      {"two_kinds", "shares its address with a function of another kind"},
      {"own_branch", "free is branched into, just after its first instruction"},
      {"neighbour", "free is branched into, just after its first instruction"},
      {"far_branch", "free is branched into, just after its first instruction"},
      {"cold", "free is branched into, just after its first instruction"},
      {"restartable", "free has a restartable sequence in its first bytes"},
      {"short_into", "valloc has a jump of 2 bytes to one of these functions"},
      {"short_far", "valloc has a jump of 2 bytes to one of these functions"},
      {"short_table", "valloc has a jump of 2 bytes to one of these functions"},
      {"copied", "free has a copy (.part, .constprop) that the program may call instead"},
      {"family", "sn_rust_alloc belongs to a family that lacks a function that allocates, or one that frees"},
  };
  for (const auto& [name, reason] : reasons) {
    Command command;
    command.argv = {Tool(), "doctor", "--", ProgramPath("entry_cases_" + name)};
    command.env["HOLDFAST_ENTRIES"] = "yes";
    const RunResult r = Execute(command);
    EXPECT_TRUE(r.exited(1)) << r.Describe();
    EXPECT_THAT(r.out, HasSubstr("NO    allocator   entry_cases_" + name));
    EXPECT_THAT(r.out, HasSubstr("the executable's allocator is not seen: "));
    EXPECT_THAT(r.out, HasSubstr(reason));
  }
}

// The same in the process: nothing is changed, and its other profiles say why.
TEST_F(EntryCases, ARefusalIsInTheProfiles) {
  for (const auto& [name, reason] : {std::pair<const char*, const char*>{"far_branch", "free is branched into"},
                                     {"restartable", "free has a restartable sequence"},
                                     {"two_kinds", "shares its address"}}) {
    const RunResult run = RunCase(name);
    ASSERT_TRUE(run.exited(0)) << name << run.Describe();
    EXPECT_TRUE(NewestHeap().empty()) << name;
    const std::vector<Decoded> map = Newest(out(), "map");
    ASSERT_EQ(map.size(), 1u) << name << AllSummaries();
    EXPECT_THAT(map[0].Comment("allocator").value_or(""), HasSubstr(reason));
    std::filesystem::remove_all(out());
  }
}

// mcount looks at both sides of its own call. The program runs as it does without the library.
TEST_F(EntryCases, AProgramCompiledWithPgIsRefused) {
  Command doctor;
  doctor.argv = {Tool(), "doctor", "--", ProgramPath("own_malloc_traced")};
  doctor.env["HOLDFAST_ENTRIES"] = "yes";
  EXPECT_THAT(Execute(doctor).out, HasSubstr("calls another object in its first bytes (-pg does)"));
  Command bare = CommandFor(Launch::kBare, {"own_malloc_traced"});
  Command command = CommandFor(Launch::kPreload, {"own_malloc_traced"}, {{"heap-interval", "1"}});
  command.env["HOLDFAST_ENTRIES"] = "yes";
  command.cwd = bare.cwd = folder();  // gmon.out
  const RunResult run = RunAndSettle(command);
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_EQ(run.out, Execute(bare).out);
}

TEST_F(EntryCases, ThreadsAndChangedBytesRefuse) {
  for (const auto& [how, reason] :
       {std::pair<const char*, const char*>{"unseen_thread", "the program already had several threads"},
        {"byte", "free its first bytes differ from the file"}}) {
    Command command =
        CommandFor(Launch::kPreload, {"entry_cases_plain"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
    command.env["HOLDFAST_ENTRIES"] = "yes";
    command.env["DISTURB"] = how;
    command.env["LD_PRELOAD"] += " " + ProgramPath("before_entries.so");
    const RunResult run = RunAndSettle(command);
    ASSERT_TRUE(run.exited(0)) << how << run.Describe();
    EXPECT_TRUE(NewestHeap().empty()) << how;
    const std::vector<Decoded> map = Newest(out(), "map");
    ASSERT_EQ(map.size(), 1u) << how << AllSummaries();
    EXPECT_THAT(map[0].Comment("allocator").value_or(""), HasSubstr(reason));
    std::filesystem::remove_all(out());
  }
}

// The library's constructor would come too late.
TEST_F(EntryCases, AThreadFromAnotherConstructorComesAfterTheRedirection) {
  Command command =
      CommandFor(Launch::kPreload, {"entry_cases_plain"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  command.env["HOLDFAST_ENTRIES"] = "yes";
  command.env["DISTURB"] = "thread";
  command.env["LD_PRELOAD"] += " " + ProgramPath("before_entries.so");
  const RunResult run = RunAndSettle(command);
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  ExpectKnownHeap(run.out);
  EXPECT_EQ(heap[0].Comment("allocator"), AllRedirected(4));
}

// Returns the address of a function in a program's file.
uint64_t AddressOf(const std::string& program, const std::string& function) {
  std::istringstream lines(Execute({.argv = {"nm", ProgramPath(program)}}).out);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(" T " + function)) return std::stoull(line, nullptr, 16);
  }
  ADD_FAILURE() << program << " has no " << function;
  return 0;
}

// The kernel runs the instruction under a uprobe elsewhere: a jump there would be lost, or run in its place.
TEST_F(EntryCases, AUprobeThatIsThereFirstRefuses) {
  if (!HasUprobes()) GTEST_SKIP() << "the kernel has no uprobes";
  Command command =
      CommandFor(Launch::kPreload, {"entry_cases_plain"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    char opened;
    for (const auto& [name, value] : command.env) setenv(name.c_str(), value.c_str(), 1);
    setenv("HOLDFAST_ENTRIES", "yes", 1);
    if (read(gate[0], &opened, 1) == 1)
      execl(command.argv[0].c_str(), command.argv[0].c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  const Uprobe probe(pid, ProgramPath("entry_cases_plain"), AddressOf("entry_cases_plain", "free"));
  const bool goes = probe.valid() && write(gate[1], "x", 1) == 1;
  close(gate[0]);
  close(gate[1]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!probe.valid()) GTEST_SKIP() << "the kernel permits no uprobes here";
  EXPECT_TRUE(goes);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(Settled());
  EXPECT_GE(probe.Count(), 200);
  EXPECT_TRUE(NewestHeap().empty());
  const std::vector<Decoded> map = Newest(out(), "map");
  ASSERT_EQ(map.size(), 1u) << AllSummaries();
  EXPECT_THAT(map[0].Comment("allocator").value_or(""),
              HasSubstr("free its first bytes differ from the file: a breakpoint, a uprobe or another tool is there"));
}

// The first instruction stays in its place: a uprobe may come and go there.
TEST_F(EntryCases, AUprobeThatComesLaterCountsTheCallsAndGoes) {
  if (!HasUprobes()) GTEST_SKIP() << "the kernel has no uprobes";
  Command command =
      CommandFor(Launch::kPreload, {"entry_cases_plain", "again"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  command.env["HOLDFAST_ENTRIES"] = "yes";
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("worked\n"));
  bool permitted = false;
  {
    std::map<std::string, Uprobe> probes;
    for (const char* function : {"malloc", "free"})
      probes.emplace(function,
                     Uprobe(running.pid(), ProgramPath("entry_cases_plain"), AddressOf("entry_cases_plain", function)));
    permitted = probes.at("malloc").valid() && probes.at("free").valid();
    running.Write("x");
    ASSERT_TRUE(running.WaitForOutput("worked\nworked\n"));
    if (permitted) {
      EXPECT_GE(probes.at("malloc").Count(), 200);
      EXPECT_GE(probes.at("free").Count(), 200);
    }
  }
  running.Write("x");
  ASSERT_TRUE(running.WaitForOutput("worked\nworked\nworked\n"));
  running.CloseInput();
  const RunResult run = running.Wait();
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_TRUE(Settled());
  ExpectKnownHeap(run.out);
  EXPECT_THAT(run.out, HasSubstr("expect kept 300 "));
  if (!permitted) GTEST_SKIP() << "the kernel permits no uprobes here";
}

// Its blocks outlive it, and keep its names.
TEST_F(EntryCases, APluginThatIsClosedLeavesItsBlocks) {
  Command command =
      CommandFor(Launch::kPreload, {"entry_cases_plain", "plugin", ProgramPath("first_unloaded_plugin.so")},
                 {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  command.env["HOLDFAST_ENTRIES"] = "yes";
  const RunResult run = RunAndSettle(command);
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  ExpectKnownHeap(run.out);
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  const Values by_plugin = heap[0].SumAny("first_unloaded_allocates");
  EXPECT_EQ(by_plugin.at("alloc_objects"), 100);
  EXPECT_EQ(by_plugin.at("inuse_objects"), 40);
  EXPECT_EQ(by_plugin.at("inuse_space"), 40 * 400);
}

// Memory from sbrk is the executable's where malloc is, and glibc's beside an allocator under other names.
TEST_F(EntryCases, TheHeapIsGlibcsIfMallocIs) {
  for (const auto& [name, is_glibcs] : {std::pair<const char*, bool>{"brk", false}, {"crate", true}}) {
    Command command = CommandFor(Launch::kPreload, {std::string("entry_cases_") + name, "again"},
                                 {{"heap-interval", "1"}, {"snapshot-every", "0"}});
    command.env["HOLDFAST_ENTRIES"] = "yes";
    Running running(command);
    ASSERT_TRUE(running.WaitForOutput("worked\n"));
    const RunResult memory = RunTool({"memory", std::to_string(running.pid()), "--tables", tables()});
    EXPECT_EQ(memory.out.find("glibc") != std::string::npos, is_glibcs) << name << memory.Describe();
    running.CloseInput();
    EXPECT_TRUE(running.Wait().exited(0));
    EXPECT_TRUE(Settled());
    const std::vector<Decoded> map = Newest(out(), "map");
    ASSERT_EQ(map.size(), 1u) << name << AllSummaries();
    EXPECT_EQ(map[0].Names("[glibc heap]"), is_glibcs) << name << map[0].Summary();
    std::filesystem::remove_all(out());
  }
}

// The caller gets both, whether the call was sampled or not.
TEST_F(EntryCases, AFunctionMayHaveASecondResult) {
  for (const char* interval : {"1", "200", "512KiB"}) {
    const RunResult run = RunCase("two_results", interval);
    ASSERT_TRUE(run.exited(0)) << interval << run.Describe();
    if (std::string(interval) == "1") ExpectKnownHeap(run.out);
    std::filesystem::remove_all(out());
  }
}

// As Rust's crates have it: no malloc of their own, and names that only .symtab has.
TEST_F(EntryCases, AnAllocatorUnderOtherNamesIsRedirectedByDefault) {
  const RunResult run =
      RunAs(Launch::kPreload, {"entry_cases_crate"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  ExpectKnownHeap(run.out);
  const RunResult doctor = RunTool({"doctor", "--", ProgramPath("entry_cases_crate")});
  EXPECT_THAT(doctor.out,
              HasSubstr("note  allocator   entry_cases_crate has an allocator linked in; " + AllRedirected(4)));
}

// GNU ld counts no imports in the hash table of an executable that exports nothing, and hashes functions of others
// if their addresses are taken.
TEST_F(EntryCases, AnExecutableWithoutPositionIndependentCodeMayExportNothing) {
  for (const char* name : {"entry_cases_crate_fixed", "entry_cases_crate_addresses"}) {
    const RunResult run = RunAs(Launch::kPreload, {name}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
    SCOPED_TRACE(name);
    ExpectAllFourRecorded(run);
    std::filesystem::remove_all(out());
  }
}

// 15 MB of symbols and names, as large servers in Rust have them.
TEST_F(EntryCases, AnAllocatorAmongManyNamesIsRedirectedByDefault) {
  const RunResult run =
      RunAs(Launch::kPreload, {"entry_cases_of_many"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  ExpectKnownHeap(run.out);
  EXPECT_THAT(RunTool({"doctor", "--", ProgramPath("entry_cases_of_many")}).out,
              HasSubstr("note  allocator   entry_cases_of_many has an allocator linked in; " + AllRedirected(4)));
}

// Each of the three ways to write code, where it is the only one; and none.
TEST_F(EntryCases, CodeIsWrittenWhereWritableCodeIsForbidden) {
  for (const char* how : {"mdwe", "systemd", "only_memfd", "only_mprotect", "all"}) {
    std::filesystem::remove_all(out());
    const RunResult run = RunForbidden(how, "entry_cases_plain");
    if (run.exited(77)) continue;  // a kernel without it
    ASSERT_TRUE(run.exited(0)) << how << run.Describe();
    if (std::string(how) == "all") {
      EXPECT_TRUE(NewestHeap().empty()) << AllSummaries();
    } else {
      ASSERT_EQ(NewestHeap().size(), 1u) << how << AllSummaries();
      ExpectKnownHeap(run.out);
    }
    const std::vector<Decoded> map = Newest(out(), "map");
    ASSERT_EQ(map.size(), 1u) << how << AllSummaries();
    EXPECT_THAT(map[0].Comment("allocator").value_or(""),
                HasSubstr(std::string(how) == "all" ? "executable's code cannot be changed here" : "are redirected"))
        << how;
  }
}

// Where the second page cannot be written, the first one is as before: a malloc that is seen beside a free that is not
// would be a leak.
TEST_F(EntryCases, WhatIsWrittenIsUndoneIfTheRestCannotBe) {
  const RunResult run = RunForbidden("second_page", "entry_cases_two_pages");
  if (run.exited(77)) GTEST_SKIP() << "the kernel has no seccomp filters";
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_THAT(run.out, HasSubstr("wrong 0"));
  EXPECT_TRUE(NewestHeap().empty()) << AllSummaries();
  const std::vector<Decoded> map = Newest(out(), "map");
  ASSERT_EQ(map.size(), 1u) << AllSummaries();
  EXPECT_THAT(map[0].Comment("allocator").value_or(""), HasSubstr("executable's code cannot be changed here"));
}

// The saved registers are no longer on the stack when the real function runs.
TEST_F(EntryCases, AThreadWithLittleStackRuns) {
  const RunResult run = RunCase("little");
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  EXPECT_EQ(heap[0].CommentNumber("lost stack-missing"), 10);
}

// The constructor runs on the program's stack. The environment is there, too.
TEST_F(EntryCases, AProgramWithALittleStackStarts) {
  Command command = CommandOf({"entry_cases_plain"});
  command.env["FILLS"] = std::string(12'000, 'x');
  command.limits = {{RLIMIT_STACK, 64 << 10}};
  ExpectAllFourRecorded(RunAndSettle(command));
}

// By each way to compile and link it. Pairs of equal functions share an address if the linker folds them.
class CompiledAllocators : public Profiled, public ::testing::WithParamInterface<const char*> {};

TEST_P(CompiledAllocators, AreRecordedToTheByte) {
  const std::string program = std::string("compiled_allocator_") + GetParam();
  if (!std::filesystem::exists(ProgramPath(program))) GTEST_SKIP() << "needs " << program;
  const bool is_folded = program.find("folded") != std::string::npos;
  for (const char* interval : {"1", "300", "512KiB"}) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{program}, {program, "remap"}}) {
      Command command = CommandFor(Launch::kPreload, words, {{"heap-interval", interval}, {"snapshot-every", "0"}});
      command.env["HOLDFAST_ENTRIES"] = "yes";
      const RunResult run = RunAndSettle(command);
      ASSERT_TRUE(run.exited(0)) << run.Describe();
      EXPECT_THAT(run.out, HasSubstr("wrong 0"));
      if (std::string(interval) == "1") {
        const std::vector<Decoded> heap = NewestHeap();
        ASSERT_EQ(heap.size(), 1u) << AllSummaries();
        ExpectKnownHeap(run.out);
        EXPECT_THAT(heap[0].Comment("allocator").value_or(""),
                    HasSubstr(is_folded ? "all 5 functions" : "all 7 functions"));
        EXPECT_EQ(heap[0].Comment("losses"), "none");
      }
      std::filesystem::remove_all(out());
    }
  }
}

// The code that replaces a function's first instructions has no unwind tables of its own. No call is sampled: the slow path
// saves all registers, and some of its instructions end a stack.
TEST_P(CompiledAllocators, HaveWholeStacksAtEachInstruction) {
  const std::string program = std::string("compiled_allocator_") + GetParam();
  if (!std::filesystem::exists(ProgramPath(program))) GTEST_SKIP() << "needs " << program;
  Command command = CommandFor(Launch::kPreload, {program, "steps"},
                               {{"heap-interval", "512KiB"}, {"snapshot-every", "0"}, {"seed", "1"}});
  command.env["HOLDFAST_ENTRIES"] = "yes";
  const RunResult run = RunAndSettle(command);
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> map = Newest(out(), "map");
  ASSERT_EQ(map.size(), 1u) << AllSummaries();
  int64_t steps = 0, whole = 0;
  for (const DecodedSample& sample : map[0].samples) {
    if (!sample.Has("Step")) continue;
    steps += sample.values.at("alloc_objects");
    if (sample.Has("WorkInSteps") && sample.Has("main")) whole += sample.values.at("alloc_objects");
  }
  EXPECT_GT(steps, 100);
  EXPECT_EQ(whole, steps) << map[0].Summary();
}

INSTANTIATE_TEST_SUITE_P(All, CompiledAllocators,
                         ::testing::Values("plain", "no_pie", "separate", "together", "cet", "thunks", "folded_by_gold",
                                           "folded_by_lld"),
                         [](const auto& info) { return std::string(info.param); });

// The block that malloc counts is the operator's too, though it begins before it. Operators that are only a call of malloc
// count themselves.
TEST_F(EntryCases, OperatorsOfTheProgramThatAddAHeaderCountOnce) {
  const auto run_case = [&](const std::vector<std::string>& words, const char* interval) {
    Command command =
        CommandFor(Launch::kPreload, words, {{"heap-interval", interval}, {"snapshot-every", "0"}, {"seed", "3"}});
    command.env["HOLDFAST_ENTRIES"] = "yes";
    return RunAndSettle(command);
  };
  const RunResult every = run_case({"tracked_new"}, "1");
  ASSERT_TRUE(every.exited(0)) << every.Describe();
  const std::vector<Decoded> exact = NewestHeap();
  ASSERT_EQ(exact.size(), 1u) << AllSummaries();
  ExpectKnownHeap(every.out);
  EXPECT_EQ(exact[0].Comment("incomplete"), std::nullopt);
  std::filesystem::remove_all(out());
  const RunResult run = run_case({"tracked_new", "50000"}, "3000");
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  int64_t known = 0;
  for (const Known& one : KnownHeap(run.out)) known += one.alloc_space;
  // 34 MB are 11,000 samples: 6 % are 6 sigma.
  EXPECT_NEAR(static_cast<double>(heap[0].Total().at("alloc_space")) / static_cast<double>(known), 1, 0.06);
}

// The exception passes the added code: the function that replaces the first instructions, and the slow path.
TEST_F(EntryCases, OperatorsOfTheProgramMayThrow) {
  for (const char* interval : {"1", "300"}) {
    std::filesystem::remove_all(out());
    const RunResult run = RunAndSettle(CommandOf({"throws_from_new"}, interval));
    ASSERT_TRUE(run.exited(0)) << interval << run.Describe();
    EXPECT_THAT(run.out, HasSubstr("wrong 0")) << interval;
    const std::vector<Decoded> thrown = Newest(out(), "exceptions");
    ASSERT_EQ(thrown.size(), 1u) << AllSummaries();
    EXPECT_THAT(thrown[0].Comment("allocator").value_or(""), HasSubstr("are redirected at their entry"));
    const auto below = [&thrown](const char* function) { return thrown[0].SumAny(function).at("exceptions"); };
    const int64_t all = thrown[0].Total().at("exceptions");  // an estimate
    EXPECT_GT(all, 100);
    EXPECT_EQ(below("by_new") + below("by_array_new"), all) << thrown[0].Summary();
    EXPECT_EQ(below("main"), all) << thrown[0].Summary();
    if (interval[0] == '1') ExpectKnownHeap(run.out);
  }
}

// auto takes a family of names for an allocator's only if something else tells that too: the arguments may be others.
TEST_F(EntryCases, AProgramsOwnFunctionsMayHaveTheNamesOfAnAllocator) {
  const RunResult run =
      RunAs(Launch::kPreload, {"names_like_tcmalloc"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  ExpectKnownHeap(run.out);
  EXPECT_LT(heap[0].Total().at("alloc_space"), 1 << 20) << AllSummaries();  // a pointer was no size
}

// auto, the default, leaves an allocator alone that no test covers.
TEST_F(EntryCases, AnUnknownAllocatorIsLeftAlone) {
  EXPECT_THAT(RunTool({"doctor", "--", ProgramPath("entry_cases_plain")}).out,
              HasSubstr("the executable's allocator is not seen: the allocator is none that is tested: --entries yes"));
}

// Which blocks it frees is not known.
TEST_F(EntryCases, AFunctionThatFreesManyBlocksMakesTheProfileIncomplete) {
  for (const char* name : {"heaps", "resets", "resets_mib", "controls"}) {
    const RunResult run = RunCase(name);
    ASSERT_TRUE(run.exited(0)) << name << run.Describe();
    const std::vector<Decoded> heap = NewestHeap();
    ASSERT_EQ(heap.size(), 1u) << name << AllSummaries();
    ExpectKnownHeap(run.out);
    if (std::string(name) == "controls") {
      EXPECT_EQ(heap[0].Comment("incomplete"), std::nullopt);
    } else {
      EXPECT_THAT(heap[0].Comment("incomplete").value_or(""), HasSubstr("frees many blocks at once")) << name;
    }
    std::filesystem::remove_all(out());
  }
}

TEST_F(EntryCases, AnInlinedFreeMakesTheProfileIncomplete) {
  const RunResult run = RunCase("inlined");
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  EXPECT_THAT(heap[0].Comment("incomplete").value_or(""), HasSubstr("some of its functions are inlined (-flto)"));
  const RunResult leaks = RunTool({"leaks", out()});
  EXPECT_TRUE(leaks.exited(4)) << leaks.Describe();
  EXPECT_THAT(leaks.err, HasSubstr("cannot tell what grows"));
}

// No call arrives, so nothing in the process tells: its file does.
TEST_F(EntryCases, AnAllocatorThatIsInlinedEverywhereMakesTheProfileIncomplete) {
  const RunResult run = RunCase("uncalled");
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u) << AllSummaries();
  EXPECT_THAT(heap[0].Comment("incomplete").value_or(""),
              HasSubstr("is inlined into functions of the program (-flto)"));
  const RunResult leaks = RunTool({"leaks", out()});
  EXPECT_TRUE(leaks.exited(4)) << leaks.Describe();
  EXPECT_THAT(leaks.err, HasSubstr("cannot tell what grows"));
}

// Redirected functions say nothing of an allocator's parts in other functions. Its slow part does, by its name.
TEST_F(EntryCases, TheSlowPartTellsWhetherAnAllocatorIsInlined) {
  const std::string program = folder() + "/program";
  const auto is_said = [&](const std::string& form, const std::string& name, const std::string& text) {
    // Of the allocator are also the functions that its calloc and realloc lead to.
    ASSERT_EQ(Execute({.argv = {"objcopy", "--redefine-sym", "_mi_malloc_generic=" + name, "--redefine-sym",
                                "toy_calloc=_mi_calloc", "--redefine-sym", "toy_realloc=_mi_realloc", ProgramPath(form),
                                program}})
                  .status,
              0);
    Command doctor;
    doctor.argv = {Tool(), "doctor", "--", program};
    doctor.env["HOLDFAST_ENTRIES"] = "yes";
    EXPECT_THAT(Execute(doctor).out, HasSubstr(text)) << form << " " << name;
  };
  // Of gperftools, google/tcmalloc and snmalloc.
  for (const char* name : {"_ZN8tcmalloc11ThreadCache21FetchFromCentralCacheEjiPFPvmE",
                           "_ZN8tcmalloc17tcmalloc_internalL16slow_alloc_smallINS0_14TCMallocPolicyEEEvmjT_",
                           "_ZN8snmalloc13CoreAllocatorINS_6ConfigEE11small_allocILNS_7ZeroMemE0EEEvm"}) {
    is_said("entry_cases_uncalled", name, "is inlined into functions of the program (-flto)");
    is_said("entry_cases_ordinary", name, "ok    allocator   program has an allocator linked in; all 4 functions");
  }
  is_said("entry_cases_uncalled", "other_slow_part", "cannot tell whether the executable's allocator is inlined");
}

// The names may be in a debug file.
TEST_F(EntryCases, ADebugFileTellsWhetherAnAllocatorIsInlined) {
  const std::string program = folder() + "/program", debug = program + ".debug";
  std::filesystem::copy_file(ProgramPath("entry_cases_uncalled"), program);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"objcopy", "--only-keep-debug", program, debug},
        {"strip", program},
        {"objcopy", "--add-gnu-debuglink=" + debug, program}})
    ASSERT_EQ(Execute({.argv = words, .cwd = folder()}).status, 0) << words[0];
  const auto run = [&](const std::string& text) {
    EXPECT_THAT(
        RunTool({"run", "--entries", "yes", "--heap-interval", "1", "--tables", tables(), "-o", out(), "--", program})
            .err,
        HasSubstr(text));
    std::filesystem::remove_all(out());
  };
  run("incomplete: the executable's allocator is inlined into functions of the program (-flto)");
  std::filesystem::remove(debug);
  run("cannot tell whether the executable's allocator is inlined into functions of the program (-flto)");
}

}  // namespace
}  // namespace holdfast::testing
