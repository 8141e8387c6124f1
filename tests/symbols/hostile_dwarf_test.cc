// Damaged debug information costs lines, never the tool: no crash, no endless walk (the asan preset watches, too).
#include <fcntl.h>
#include <gtest/gtest.h>

#include <random>

#include "report/names/dwarf/info.h"
#include "report/names/elf/debug_file_finder.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast::testing {
namespace {

TEST(HostileDwarf, DamagedSectionsGiveFewerFrames) {
  Folder folder;
  folder.Write("a.cc",
               "volatile int g; struct S { int v; int get() const { return v + g; } };\n"
               "static inline int twice(const S& s) { return s.get() * 2; }\n"
               "template <int n> int f(int x) { S s{x + n}; return twice(s) + f<n - 1>(x); }\n"
               "template <> int f<0>(int x) { return x; }\n"
               "int main(int c, char**) { return f<5>(c); }\n");
  std::mt19937 random(9);
  for (const char* flags : {"-gdwarf-5", "-gdwarf-4", "-gdwarf-5 -ffunction-sections"}) {
    ASSERT_EQ(Command("cd " + folder.path() + " && g++ -O2 " + flags + " -no-pie -o a a.cc").status, 0);
    const std::string whole = ReadWhole(folder.File("a"));
    std::vector<std::pair<uint64_t, uint64_t>> sections;  // offset, size
    std::istringstream lines(Command("readelf -SW " + folder.File("a")).output);
    static const std::regex row(R"(\.debug_\w+ +\w+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+))");
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      if (std::regex_search(line, match, row)) {
        sections.emplace_back(std::stoull(match[1], nullptr, 16), std::stoull(match[2], nullptr, 16));
      }
    }
    ASSERT_GE(sections.size(), 5u);
    std::vector<uint64_t> addresses;
    for (uint64_t address = 0x401000; address < 0x401400; address += 3) addresses.push_back(address);
    size_t frames = 0;
    for (int round = 0; round < 400; ++round) {
      std::string bytes = whole;
      for (unsigned flips = round == 0 ? 0 : 1 + random() % 8; flips > 0; --flips) {
        const auto& [offset, size] = sections[random() % sections.size()];
        bytes[offset + random() % size] = static_cast<char>(random());
      }
      auto fd = OpenRegular(folder.Write("damaged", bytes));
      ASSERT_TRUE(fd.ok());
      auto file = OpenDebugFile(*std::move(fd), 1 << 20);
      if (!file.ok()) continue;
      const auto of_file = SectionsOf(*file);
      if (!of_file.ok()) continue;
      dwarf::DebugInfo info(
          *of_file, [](const auto&, const auto&) { return absl::NotFoundError(""); }, [](uint64_t) { return true; });
      EXPECT_TRUE(info.Load(addresses, Deadline::Never()));
      for (const uint64_t address : addresses) frames += info.FramesAt(address).size();
      if (round == 0) {
        EXPECT_GT(frames, 50u) << flags;
      }
    }
  }
}

TEST(HostileDwarf, ReferencesInACircleEnd) {
  // Two entries, each the abstract origin of the other, for an inlined call: written by hand.
  const std::string abbrev(
      "\x01\x11\x01\x11\x01\x12\x06\x00\x00"          // unit: low_pc, high_pc
      "\x02\x2e\x00\x11\x01\x12\x06\x31\x13\x00\x00"  // function: low_pc, high_pc, abstract_origin
      "\x03\x2e\x00\x31\x13\x00\x00\x00",
      28);
  std::string info;
  const auto number = [&](uint64_t value, int size) {
    for (int i = 0; i < size; ++i) info += static_cast<char>(value >> (8 * i));
  };
  number(0, 4);  // length, below
  number(4, 2);
  number(0, 4);
  number(8, 1);
  number(1, 1), number(0x1000, 8), number(0x100, 4);
  const size_t function = info.size();
  number(2, 1), number(0x1000, 8), number(0x100, 4), number(function + 17, 4);
  number(3, 1), number(function + 22, 4);
  number(3, 1), number(function + 17, 4);
  number(0, 1);
  info[0] = static_cast<char>(info.size() - 4);
  auto sections = std::make_shared<dwarf::Sections>();
  sections->info = dwarf::Section::InMemory(info);
  sections->abbrev = dwarf::Section::InMemory(abbrev);
  dwarf::DebugInfo debug(
      sections, [](const auto&, const auto&) { return absl::NotFoundError(""); }, [](uint64_t) { return true; });
  const std::vector<uint64_t> addresses = {0x1010};
  EXPECT_TRUE(debug.Load(addresses, Deadline::Never()));
  ASSERT_EQ(debug.FramesAt(0x1010).size(), 1u);
  EXPECT_EQ(debug.Text(debug.FramesAt(0x1010)[0].function), "");
}

TEST(HostileDwarf, UnfinishedWorkIsLeftForLater) {
  const auto fd = OpenRegular(HOLDFAST_SAMPLES "/gcc-5-pie/sample");
  ASSERT_TRUE(fd.ok());
  auto file = OpenDebugFile(FileDescriptor(dup(fd->get())), 1 << 20);
  ASSERT_TRUE(file.ok());
  dwarf::DebugInfo info(
      *SectionsOf(*file), [](const auto&, const auto&) { return absl::NotFoundError(""); },
      [](uint64_t) { return true; });
  const std::vector<uint64_t> addresses = {0x9000, 0xa000};
  EXPECT_FALSE(info.Load(addresses, Deadline::In(std::chrono::milliseconds(0))));
  EXPECT_TRUE(info.FramesAt(0x9000).empty());
  EXPECT_TRUE(info.Load(addresses, Deadline::Never()));
  EXPECT_FALSE(info.FramesAt(0x9000).empty());
}

}  // namespace
}  // namespace holdfast::testing
