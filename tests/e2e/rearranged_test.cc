// Files that other tools have rearranged, or that are in memory in an unusual way: stacks pass through them to main, and
// their functions have names.
#include <elf.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <regex>

#include "tests/support/old_glibc.h"
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kPage = 4096;
uint64_t PageUp(uint64_t value) { return (value + kPage - 1) / kPage * kPage; }

// Appends .eh_frame_hdr for a place that is so far from the old one, in memory: its offsets lead to the same entries.
void AppendUnwindHeader(const std::string& file, const Elf64_Phdr& old, uint64_t distance, std::string* to) {
  std::string header = file.substr(old.p_offset, old.p_filesz);
  const auto shift = [&](size_t at) {
    int32_t value;
    std::memcpy(&value, header.data() + at, sizeof value);
    value -= static_cast<int32_t>(distance);
    std::memcpy(header.data() + at, &value, sizeof value);
  };
  shift(4);  // where .eh_frame is
  for (size_t at = 12; at + 4 <= header.size(); at += 4) shift(at);
  *to += header;
}

// Moves the program headers and the table of unwind entries of an ELF file to a segment of their own at its end, as BOLT
// does, and overwrites the old headers. The unwind entries themselves stay. `gap`: the segment is that much further from
// the first one than in the file, and where it would be without the gap there are headers of fewer segments.
std::string WithHeadersBehind(std::string file, uint64_t gap) {
  Elf64_Ehdr head;
  std::memcpy(&head, file.data(), sizeof head);
  std::vector<Elf64_Phdr> headers(head.e_phnum);
  std::memcpy(headers.data(), file.data() + head.e_phoff, headers.size() * sizeof headers[0]);
  uint64_t base = UINT64_MAX, end = file.size();
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type != PT_LOAD) continue;
    base = std::min(base, header.p_vaddr / kPage * kPage);
    end = std::max(end, header.p_vaddr + header.p_memsz - base);
  }
  // As far from the start of the file as from the first segment: kernels before 5.18 rely on it.
  const uint64_t at = PageUp(end) + kPage;
  const uint64_t bytes = (headers.size() + (gap != 0 ? 2 : 1)) * sizeof headers[0];
  std::string tables;
  Elf64_Phdr own{};
  own.p_type = PT_LOAD;
  own.p_flags = PF_R;
  own.p_offset = at;
  own.p_vaddr = own.p_paddr = base + at + gap;
  own.p_align = kPage;
  for (Elf64_Phdr& header : headers) {
    if (header.p_type != PT_GNU_EH_FRAME) continue;
    AppendUnwindHeader(file, header, own.p_vaddr + bytes - header.p_vaddr, &tables);
    header.p_offset = at + bytes;
    header.p_vaddr = header.p_paddr = own.p_vaddr + bytes;
  }
  own.p_filesz = own.p_memsz = bytes + tables.size();
  const auto last = std::find_if(headers.rbegin(), headers.rend(), [](const auto& h) { return h.p_type == PT_LOAD; });
  const auto inserted = headers.insert(last.base(), own);
  const uint64_t fewer_at = PageUp(at + bytes + tables.size());
  if (gap != 0) {
    Elf64_Phdr fewer = own;
    fewer.p_offset = fewer_at;
    fewer.p_vaddr = fewer.p_paddr = base + at;
    fewer.p_filesz = fewer.p_memsz = bytes;
    headers.insert(inserted, fewer);
  }
  for (Elf64_Phdr& header : headers) {
    if (header.p_type != PT_PHDR) continue;
    header.p_offset = at;
    header.p_vaddr = header.p_paddr = own.p_vaddr;
    header.p_filesz = header.p_memsz = bytes;
  }
  std::memset(file.data() + head.e_phoff, 0xcc, head.e_phnum * sizeof headers[0]);
  head.e_phoff = at;
  head.e_phnum = static_cast<uint16_t>(headers.size());
  file.resize(at);
  file.append(reinterpret_cast<const char*>(headers.data()), bytes);
  file += tables;
  std::memcpy(file.data(), &head, sizeof head);
  if (gap == 0) return file;
  file.resize(fewer_at);
  bool is_first = true;
  for (Elf64_Phdr& header : headers) {
    const bool stays = header.p_type == PT_DYNAMIC || (header.p_type == PT_LOAD && is_first);
    if (header.p_type == PT_LOAD) is_first = false;
    if (!stays) header.p_type = PT_NULL;
  }
  return file.append(reinterpret_cast<const char*>(headers.data()), bytes);
}
std::string WithHeadersAtTheEnd(std::string file) { return WithHeadersBehind(std::move(file), 0); }
std::string WithTwoHeaders(std::string file) { return WithHeadersBehind(std::move(file), 16 * kPage); }

class Rearranged : public Profiled {
 protected:
  std::string Copy(const std::string& name, std::string (*change)(std::string) = nullptr) {
    const std::string path = folder() + "/" + name, bytes = ReadFile(ProgramPath(name));
    WriteFile(path, change != nullptr ? change(bytes) : bytes);
    chmod(path.c_str(), 0755);
    return path;
  }

  // "": it is not installed.
  static std::string Bolt() {
    for (const char* version : {"", "-21", "-20", "-19", "-18", "-17", "-16", "-15"}) {
      const std::string name = std::string("llvm-bolt") + version;
      if (Execute({.argv = {name, "--version"}}).exited(0)) return name;
    }
    return "";
  }
  std::string Bolted(const std::string& bolt, const std::string& name,
                     const std::vector<std::string>& options = {"-lite=0"}) {
    const std::string to = folder() + "/bolted_" + name;
    std::vector<std::string> argv = {bolt, ProgramPath(name), "-o", to, "-reorder-blocks=ext-tsp"};
    argv.insert(argv.end(), options.begin(), options.end());
    const RunResult run = Execute({.argv = argv});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    return to;
  }

  // Runs patchelf with texts that have no room at their old places.
  std::string Patched(const std::string& name) {
    const std::string path = Copy(name), far = "/lib64/" + std::string(200, '/');
    std::vector<std::string> argv = {"patchelf", "--add-needed", "libm.so.6", "--set-rpath", far};
    if (!name.ends_with(".so")) argv.insert(argv.end(), {"--set-interpreter", far + "ld-linux-x86-64.so.2"});
    argv.push_back(path);
    const RunResult run = Execute({.argv = argv});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    return path;
  }

  // Each stack leads from its function through both files to main.
  void ExpectWholeStacks(const RunResult& run) {
    ASSERT_TRUE(run.exited(0)) << run.Describe();
    ExpectKnownHeap(run.out);
    for (const Decoded& heap : NewestHeap()) {
      EXPECT_EQ(heap.Comment("losses"), "none") << heap.Summary();
      for (const DecodedSample& sample : heap.samples) {
        const bool by_program = sample.LeafIs("program_allocates");
        if (!by_program && !sample.LeafIs("library_allocates")) continue;
        for (const char* function : {"through_library", "calls_both", "main"})
          EXPECT_TRUE(sample.Has(function)) << function << "\n" << heap.Summary();
        EXPECT_FALSE(sample.Has("[truncated]")) << heap.Summary();
      }
    }
  }

  RunResult Run(const std::string& program, const std::string& library, const std::string& more = "") {
    std::vector<std::string> argv = {program, library};
    if (!more.empty()) argv.push_back(more);
    return RunAndSettle(CommandFor(Launch::kPreload, argv, {{"heap-interval", "1"}}));
  }
  // The library is loaded with the program.
  RunResult RunLinked(const std::string& program, const std::string& library, const std::string& more = "") {
    std::vector<std::string> argv = {program, "-"};
    if (!more.empty()) argv.push_back(more);
    Command command = CommandFor(Launch::kPreload, argv, {{"heap-interval", "1"}});
    command.env["LD_PRELOAD"] += " " + library;
    return RunAndSettle(command);
  }
};

TEST_F(Rearranged, HeadersOfALibraryMayBeAtItsEnd) {
  const std::string library = Copy("rearranged_library.so", WithHeadersAtTheEnd);
  ExpectWholeStacks(RunLinked(ProgramPath("rearranged"), library));
}

TEST_F(Rearranged, HeadersOfAPluginMayBeAtItsEnd) {
  const std::string library = Copy("rearranged_library.so", WithHeadersAtTheEnd);
  ExpectWholeStacks(Run(ProgramPath("rearranged"), library));
}

TEST_F(Rearranged, HeadersAreTheMappedOnes) {
  ExpectWholeStacks(RunLinked(ProgramPath("rearranged"), Copy("rearranged_library.so", WithTwoHeaders)));
}

// glibc before 2.35 has no search for loaded objects, so the library uses its own.
TEST_F(Rearranged, HeadersAreFoundWithoutASearchOfLibc) {
  for (const auto& change : {WithHeadersAtTheEnd, WithTwoHeaders}) {
    std::filesystem::remove_all(out());
    Command command = CommandFor(Launch::kPreload, {ProgramPath("rearranged"), "-"}, {{"heap-interval", "1"}});
    command.env["LD_PRELOAD"] += " " + Copy("rearranged_library.so", change);
    command.env["LD_LIBRARY_PATH"] = FolderOfOldGlibc(folder());
    ExpectWholeStacks(RunAndSettle(command));
  }
}

class RearrangedPrograms : public Rearranged, public ::testing::WithParamInterface<const char*> {};

// rearranged_relinked contains the library.
static std::string LibraryOf(const std::string& program) {
  return program == "rearranged_relinked" ? "-" : ProgramPath("rearranged_library.so");
}

TEST_P(RearrangedPrograms, SegmentsMayHaveAnyLayout) {
  ExpectWholeStacks(Run(ProgramPath(GetParam()), LibraryOf(GetParam())));
}

TEST_P(RearrangedPrograms, HeadersMayBeAtTheEnd) {
  ExpectWholeStacks(Run(Copy(GetParam(), WithHeadersAtTheEnd), LibraryOf(GetParam())));
}

TEST_P(RearrangedPrograms, MemoryMayBecomeAnonymous) {
  ExpectWholeStacks(Run(ProgramPath(GetParam()), LibraryOf(GetParam()), "remap"));
}

INSTANTIATE_TEST_SUITE_P(All, RearrangedPrograms,
                         ::testing::Values("rearranged", "rearranged_no_pie", "rearranged_separate",
                                           "rearranged_together", "rearranged_relinked"),
                         [](const auto& info) { return std::string(info.param); });

// llvm-bolt itself, where it is installed.
TEST_F(Rearranged, BoltedFilesAreWalked) {
  const std::string bolt = Bolt();
  if (bolt.empty()) GTEST_SKIP() << "needs llvm-bolt";
  const std::string library = Bolted(bolt, "rearranged_library.so");
  for (const char* program : {"rearranged", "rearranged_no_pie"}) {
    ExpectWholeStacks(Run(Bolted(bolt, program), library));
    std::filesystem::remove_all(out());
  }
}

// The cold part of a function has a symbol of its own, and functions without a profile stay where they were, in a section
// .bolt.org.text. Two branches and the start of `splits` are in the profile.
TEST_F(Rearranged, AFunctionThatBoltHasSplitIsOne) {
  const std::string bolt = Bolt();
  if (bolt.empty()) GTEST_SKIP() << "needs llvm-bolt";
  const std::string profile = folder() + "/splits.fdata";
  WriteFile(profile,
            "0 [unknown] 0 1 splits 0 0 1000\n1 splits 12 1 hot_allocates 0 0 1000\n1 splits 17 1 splits 23 0 1000\n");
  const std::string program =
      Bolted(bolt, "split_by_bolt", {"-data=" + profile, "-split-functions", "-split-all-cold", "-lite=1"});
  ASSERT_THAT(Execute({.argv = {"nm", program}}).out, HasSubstr(" t splits.cold.0\n"));
  ASSERT_THAT(Execute({.argv = {"readelf", "-SW", program}}).out, HasSubstr(" .bolt.org.text "));
  const RunResult run = RunAndSettle(CommandFor(Launch::kPreload, {program}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  ExpectKnownHeap(run.out);
  const RunResult peek = RunTool({"peek", "splits", out()});
  for (const char* line : {"\n *900B +100% +stays\n", "900B +[0-9.]+% +splits ", "800B +[0-9.]+% +hot_allocates",
                           "100B +[0-9.]+% +cold_allocates"})
    EXPECT_TRUE(std::regex_search(peek.out, std::regex(line))) << line << peek.Describe();
  EXPECT_THAT(peek.out, Not(HasSubstr(".cold")));
  for (const Decoded& heap : NewestHeap()) {
    for (const DecodedSample& sample : heap.samples) EXPECT_TRUE(sample.Has("main")) << heap.Summary();
  }
}

// patchelf moves the program headers, the names and the dynamic section.
TEST_F(Rearranged, FilesOfPatchelfAreWalked) {
  if (!Execute({.argv = {"patchelf", "--version"}}).exited(0)) GTEST_SKIP() << "needs patchelf";
  const std::string library = Patched("rearranged_library.so");
  for (const char* program : {"rearranged", "rearranged_no_pie"}) {
    ExpectWholeStacks(Run(Patched(program), library));
    std::filesystem::remove_all(out());
  }
}

// As prelink left them: their addresses in the file are not 0, and a program that is not position-independent loads
// them there.
TEST_F(Rearranged, ALibraryMayHaveAddressesOfItsOwn) {
  const std::string prelinked = "rearranged_library_prelinked.so", far = "rearranged_library_far.so";
  ExpectWholeStacks(RunLinked(ProgramPath("rearranged_no_pie"), ProgramPath(prelinked)));
  std::filesystem::remove_all(out());
  ExpectWholeStacks(Run(ProgramPath("rearranged"), Copy(prelinked, WithHeadersAtTheEnd)));
  std::filesystem::remove_all(out());
  ExpectWholeStacks(Run(ProgramPath("rearranged_no_pie"), Copy(far, WithHeadersAtTheEnd)));
}

// Where those addresses are in use, the loader puts the library below them: the difference is negative.
TEST_F(Rearranged, ALibraryMayBeLoadedBelowItsAddresses) {
  const std::string first = ProgramPath("rearranged_library_far.so"), second = folder() + "/rearranged_second.so";
  WriteFile(second, ReadFile(first));
  Command command = CommandFor(Launch::kPreload, {ProgramPath("rearranged"), second}, {{"heap-interval", "1"}});
  command.env["LD_PRELOAD"] += " " + first + " " + second;
  ExpectWholeStacks(RunAndSettle(command));
}

// ---- The same with an allocator in the executable ----

class RearrangedAllocators : public Rearranged {
 protected:
  void ExpectAllRedirected(const std::string& program) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{program}, {program, "remap"}}) {
      Command command = CommandFor(Launch::kPreload, words, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
      command.env["HOLDFAST_ENTRIES"] = "yes";
      const RunResult run = RunAndSettle(command);
      ASSERT_TRUE(run.exited(0)) << run.Describe();
      ExpectKnownHeap(run.out);
      for (const Decoded& heap : NewestHeap())
        EXPECT_THAT(heap.Comment("allocator").value_or(""), HasSubstr("all 7 functions")) << program;
      Command doctor;
      doctor.argv = {Tool(), "doctor", "--", program};
      doctor.env["HOLDFAST_ENTRIES"] = "yes";
      EXPECT_THAT(Execute(doctor).out, HasSubstr("all 7 functions")) << program;
      std::filesystem::remove_all(out());
    }
  }
};

TEST_F(RearrangedAllocators, AreRedirectedIfTheHeadersAreAtTheEnd) {
  for (const char* name : {"compiled_allocator_plain", "compiled_allocator_no_pie"})
    ExpectAllRedirected(Copy(name, WithHeadersAtTheEnd));
}

TEST_F(RearrangedAllocators, AreRedirectedInFilesOfPatchelf) {
  if (!Execute({.argv = {"patchelf", "--version"}}).exited(0)) GTEST_SKIP() << "needs patchelf";
  for (const char* name : {"compiled_allocator_plain", "compiled_allocator_no_pie"}) ExpectAllRedirected(Patched(name));
}

TEST_F(RearrangedAllocators, AreRedirectedInFilesOfBolt) {
  const std::string bolt = Bolt();
  if (bolt.empty()) GTEST_SKIP() << "needs llvm-bolt";
  for (const char* name : {"compiled_allocator_plain", "compiled_allocator_no_pie"})
    ExpectAllRedirected(Bolted(bolt, name));
}

// The stack of a holder that does not wait is read from outside.
TEST_F(Rearranged, StacksThatAreReadFromOutsideAreWhole) {
  const std::string program = Copy("rearranged", WithHeadersAtTheEnd);
  const std::string library = Copy("rearranged_library.so", WithHeadersAtTheEnd);
  Running running(CommandFor(Launch::kPreload, {program, library, "hold"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(running.WaitForOutput("waits\n"));
  RunResult stuck;
  EXPECT_TRUE(Eventually([&] {
    stuck = RunTool({"stuck", "--tables", tables(), "--fold", "none", std::to_string(running.pid())});
    return stuck.out.find("waits_for_input ← through_library ← holds_lock ← main") != std::string::npos;
  })) << stuck.Describe();
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

}  // namespace
}  // namespace holdfast::testing
