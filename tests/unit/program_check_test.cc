// What `run` says of a program before it starts it.
#include "report/run/program_check.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "report/names/elf/executable_kind.h"
#include "report/names/elf/processors.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr bool kOnArm64 = kOwnMachine == EM_AARCH64;
constexpr const char* kLoader = kOnArm64 ? "/lib/ld-linux-aarch64.so.1" : "/lib64/ld-linux-x86-64.so.2";

// Bytes of an ELF file: a header, the segments, and the rest.
struct TinyElf {
  Elf64_Ehdr header{};
  std::vector<Elf64_Phdr> segments;
  std::string rest;

  TinyElf() {
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = kOwnMachine;
    header.e_version = EV_CURRENT;
    header.e_ehsize = sizeof header;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
  }
  // `segments_in_all`: how many there will be, which decides where the rest begins.
  uint64_t RestOffset(size_t segments_in_all) const { return sizeof header + segments_in_all * sizeof(Elf64_Phdr); }
  std::string Bytes() {
    header.e_phnum = static_cast<Elf64_Half>(segments.size());
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.append(reinterpret_cast<const char*>(segments.data()), segments.size() * sizeof(Elf64_Phdr));
    return bytes + rest;
  }
};

Elf64_Phdr Segment(uint32_t type, uint64_t offset, uint64_t bytes, uint64_t address = 0) {
  Elf64_Phdr segment{};
  segment.p_type = type;
  segment.p_offset = offset;
  segment.p_filesz = segment.p_memsz = bytes;
  segment.p_vaddr = address;
  return segment;
}

TinyElf Dynamic(const std::string& loader) {
  TinyElf elf;
  elf.segments.push_back(Segment(PT_INTERP, elf.RestOffset(1), loader.size() + 1));
  elf.rest = loader + '\0';
  return elf;
}

// With dynamic strings `strings`, and one needed library at offset `needed` of them.
TinyElf WithStrings(const std::string& strings, uint64_t needed) {
  const std::string loader(kLoader, strlen(kLoader) + 1);
  TinyElf elf;
  const uint64_t rest = elf.RestOffset(3), dynamic_offset = rest + loader.size(), address = 0x10000;
  Elf64_Dyn dynamic[4] = {};
  dynamic[0].d_tag = DT_NEEDED;
  dynamic[0].d_un.d_val = needed;
  dynamic[1].d_tag = DT_STRTAB;
  dynamic[1].d_un.d_ptr = address + dynamic_offset + sizeof dynamic;
  dynamic[2].d_tag = DT_STRSZ;
  dynamic[2].d_un.d_val = strings.size();
  elf.rest = loader + std::string(reinterpret_cast<const char*>(dynamic), sizeof dynamic) + strings;
  elf.segments = {Segment(PT_LOAD, 0, rest + elf.rest.size(), address), Segment(PT_INTERP, rest, loader.size()),
                  Segment(PT_DYNAMIC, dynamic_offset, sizeof dynamic)};
  return elf;
}

class ProgramCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/holdfast-unit.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes, int mode = 0755) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    chmod(path.c_str(), static_cast<mode_t>(mode));
    return path;
  }
  ProgramCheck Check(const std::string& program, const std::string& path_variable = "/usr/bin:/bin") const {
    return CheckProgram({program, "-x"}, path_variable.c_str(), "/lib/libholdfast.so");
  }
  static std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }

  std::string folder_;
};

TEST_F(ProgramCheckTest, AProgramOfThisSystemIsFound) {
  const ProgramCheck check = Check("env");
  EXPECT_EQ(check.exit_code, 0) << check.message;
  EXPECT_EQ(check.path, "/usr/bin/env");
  EXPECT_THAT(check.arguments, ElementsAre("env", "-x"));
  EXPECT_TRUE(check.recordable);
}

TEST_F(ProgramCheckTest, PathIsSearchedAsExecvpDoes) {
  std::filesystem::create_directory(folder_ + "/a");
  std::filesystem::create_directory(folder_ + "/b");
  Write("a/prog", "#!/bin/sh\n", 0644);
  const std::string both = folder_ + "/a:" + folder_ + "/b";
  ProgramCheck check = Check("prog", both);
  EXPECT_EQ(check.exit_code, 126);  // there is one, without permission
  Write("b/prog", "#!/bin/sh\n");
  check = Check("prog", both);
  EXPECT_EQ(check.path, folder_ + "/b/prog");  // which does not end the search
  EXPECT_EQ(Check("prog", "/nonexistent::" + both).path, folder_ + "/b/prog");
  check = Check("nosuch", both);
  EXPECT_EQ(check.exit_code, 127);
  EXPECT_THAT(check.message, HasSubstr("nosuch: not found in PATH"));
  EXPECT_EQ(Check("", both).exit_code, 127);
  EXPECT_EQ(CheckProgram({"sh"}, nullptr, "").path, "/bin/sh");
}

TEST_F(ProgramCheckTest, AFileThatIsNotAProgramIs126) {
  EXPECT_EQ(Check(folder_).exit_code, 126);
  EXPECT_THAT(Check(folder_).message, HasSubstr("is a folder"));
  EXPECT_EQ(Check(Write("plain", "#!/bin/sh\n", 0644)).exit_code, 126);
  EXPECT_EQ(Check(Write("garbage",
                        "\x7f"
                        "ELFgarbage"))
                .exit_code,
            126);
  EXPECT_EQ(Check(Write("no_interpreter", "#!\n")).exit_code, 126);
  EXPECT_EQ(Check(folder_ + "/plain/below").exit_code, 127);
  TinyElf object;
  object.header.e_type = ET_REL;
  EXPECT_EQ(Check(Write("object.o", object.Bytes())).exit_code, 126);
}

TEST_F(ProgramCheckTest, AScriptIsJudgedByItsInterpreter) {
  EXPECT_EQ(Check(Write("sh", "#! /bin/sh -e\necho\n")).exit_code, 0);
  const ProgramCheck missing = Check(Write("missing", "#!/nonexistent/interpreter -x\n"));
  EXPECT_EQ(missing.exit_code, 126);
  EXPECT_THAT(missing.message, HasSubstr("/nonexistent/interpreter"));
  const std::string static_program = Write("static", [] {
    TinyElf elf;
    elf.segments.push_back(Segment(PT_LOAD, 0, 64));
    return elf.Bytes();
  }());
  ProgramCheck check = Check(Write("of_static", "#!" + static_program + "\n"));
  EXPECT_EQ(check.exit_code, 125);
  EXPECT_THAT(check.message, HasSubstr("of_static: its interpreter " + static_program + " is linked statically"));
  EXPECT_EQ(Check(Write("of_script", "#!" + folder_ + "/of_static\n")).exit_code, 125);
  EXPECT_EQ(Check(Write("by_env", "#!/usr/bin/env static\n"), folder_).exit_code, 125);
  EXPECT_EQ(Check(Write("by_env_s", "#!/usr/bin/env -S A=1 static -u\n"), folder_).exit_code, 125);
  EXPECT_EQ(Check(Write("env_finds_none", "#!/usr/bin/env nosuch\n"), folder_).exit_code, 0);  // env says it itself
  Write("endless", "#!" + folder_ + "/endless\n");
  EXPECT_EQ(Check(folder_ + "/endless").exit_code, 126);
}

TEST_F(ProgramCheckTest, ATextWithoutAnInterpreterIsForTheShell) {
  const std::string path = Write("text", "echo hello\n");
  const ProgramCheck check = Check(path);
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_EQ(check.path, "/bin/sh");
  EXPECT_THAT(check.arguments, ElementsAre("/bin/sh", path, "-x"));
}

TEST_F(ProgramCheckTest, ProgramsThatCannotLoadTheLibraryAre125) {
  TinyElf fixed;
  fixed.header.e_type = ET_EXEC;
  fixed.segments.push_back(Segment(PT_LOAD, 0, 64));
  EXPECT_THAT(Check(Write("static", fixed.Bytes())).message, HasSubstr("statically"));
  fixed.header.e_type = ET_DYN;
  EXPECT_THAT(Check(Write("static-pie", fixed.Bytes())).message, HasSubstr("statically"));
  TinyElf other = Dynamic("/lib/ld.so");
  other.header.e_machine = kOnArm64 ? EM_X86_64 : EM_AARCH64;
  EXPECT_THAT(Check(Write("other", other.Bytes())).message, HasSubstr(kOnArm64 ? "x86-64" : "aarch64"));
  TinyElf x32 = Dynamic("/libx32/ld-linux-x32.so.2");
  x32.header.e_ident[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(Check(Write("x32", x32.Bytes())).message, HasSubstr("32-bit"));
  for (const char* name : {"static", "static-pie", "other", "x32"}) {
    EXPECT_EQ(Check(folder_ + "/" + name).exit_code, 125) << name;
    EXPECT_THAT(Check(folder_ + "/" + name).message, HasSubstr("nothing in it can be recorded")) << name;
  }
}

TEST_F(ProgramCheckTest, AProgramThatIsHandedToTheLoaderIsJudgedByItself) {
  const std::string loader = kLoader;
  const auto check = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), loader);
    return CheckProgram(arguments, "/usr/bin:/bin", "/lib/libholdfast.so");
  };
  EXPECT_EQ(check({"/usr/bin/env"}).exit_code, 0) << check({"/usr/bin/env"}).message;
  EXPECT_EQ(check({"/usr/bin/env"}).path, loader);
  EXPECT_EQ(check({"--library-path", "/lib", "--inhibit-cache", "/usr/bin/env"}).exit_code, 0);
  EXPECT_EQ(check({"--version"}).exit_code, 0);  // what is wrong with its arguments it says itself
  EXPECT_EQ(check({}).exit_code, 0);
  TinyElf fixed;
  fixed.segments.push_back(Segment(PT_LOAD, 0, 64));
  const std::string is_static = Write("static", fixed.Bytes());
  EXPECT_EQ(check({"--argv0", "x", is_static}).exit_code, 125);
  EXPECT_THAT(check({is_static}).message, HasSubstr(is_static + ": is linked statically"));
}

TEST_F(ProgramCheckTest, AMissingLoaderIsNamed) {
  const ProgramCheck check = Check(Write("other", Dynamic("/nonexistent/ld.so").Bytes()));
  EXPECT_EQ(check.exit_code, 126);
  EXPECT_THAT(check.message, HasSubstr("/nonexistent/ld.so"));
}

TEST_F(ProgramCheckTest, SanitizedProgramsRunWithoutTheLibrary) {
  const struct {
    std::string strings;
    uint64_t needed;
    const char* name;
  } cases[] = {
      {std::string("\0libasan.so.8\0", 14), 1, "AddressSanitizer"},
      {std::string("\0libtsan.so.2\0", 14), 1, "ThreadSanitizer"},
      {std::string("\0libc.so.6\0__asan_init\0", 23), 1, "AddressSanitizer"},  // the runtime is linked in
      {std::string("\0libc.so.6\0__tsan_init\0", 23), 1, "ThreadSanitizer"},
  };
  for (const auto& one : cases) {
    const ProgramCheck check = Check(Write("sanitized", WithStrings(one.strings, one.needed).Bytes()));
    EXPECT_EQ(check.exit_code, 0);
    EXPECT_FALSE(check.recordable);
    EXPECT_THAT(check.message, HasSubstr(one.name));
  }
  const std::string plain("\0libc.so.6\0__asan_init_of_mine\0", 31);
  EXPECT_TRUE(Check(Write("plain", WithStrings(plain, 1).Bytes())).recordable);
  EXPECT_TRUE(Check(Write("far", WithStrings(plain, 1u << 30).Bytes())).recordable);
}

TEST_F(ProgramCheckTest, MoreRightsThanOursMeanNoPreloading) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  const std::string path = folder_ + "/setuid";
  std::filesystem::copy_file("/usr/bin/env", path);
  chmod(path.c_str(), 04755);
  EXPECT_EQ(Check(path).exit_code, 0);  // root's, and we are root
  ASSERT_EQ(chown(path.c_str(), 65534, 0), 0);
  chmod(path.c_str(), 04755);
  EXPECT_EQ(Check(path).exit_code, 125);
  EXPECT_THAT(Check(path).message, HasSubstr("setuid"));
  ASSERT_EQ(chown(path.c_str(), 0, 65534), 0);
  chmod(path.c_str(), 02755);
  EXPECT_THAT(Check(path).message, HasSubstr("setgid"));
  chmod(path.c_str(), 02745);  // without the group's x it is no setgid bit
  EXPECT_EQ(Check(path).exit_code, 0);
}

TEST_F(ProgramCheckTest, HostileFilesAreReadWithoutHarm) {
  const int file = memfd_create("program", MFD_CLOEXEC);  // no disk: there are some thousand of them
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const auto read = [&](const std::string& bytes) {
    ASSERT_EQ(ftruncate(file, 0), 0);
    ASSERT_EQ(pwrite(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ReadExecutableKind(path);
  };
  const std::string good = WithStrings(std::string("\0libasan.so.8\0", 14), 1).Bytes();
  for (size_t size = 0; size < good.size(); ++size) read(good.substr(0, size));
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    std::string bad = good;
    for (int i = 0; i < 6; ++i)
      bad[4 + random() % (bad.size() - 4)] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
    read(bad);
  }
  // Whole words that overflow when they are added.
  for (size_t at = 16; at + 8 <= good.size(); at += 4) {
    for (const uint64_t value : {~uint64_t{0}, uint64_t{1} << 63, (uint64_t{1} << 63) - 1, ~uint64_t{0} - 64}) {
      std::string bad = good;
      memcpy(bad.data() + at, &value, sizeof value);
      read(bad);
    }
  }
  close(file);
}

TEST_F(ProgramCheckTest, APipeIsNotWaitedFor) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0755), 0);
  EXPECT_EQ(Check(path).exit_code, 126);
  ReadExecutableKind(path);
}

}  // namespace
}  // namespace holdfast
