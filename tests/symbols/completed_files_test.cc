// Names and lines that were not ready when a file was written: the file says so, `top` says so, and they come later.
#include <gmock/gmock.h>

#include "report/builder/process_exporter.h"
#include "report/show/top.h"
#include "tests/symbols/oracle.h"
#include "tests/unit/fake_target.h"
#include "tests/unit/pprof_fixture.h"
#include "tests/unit/view_fixture.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LateLines, AreCompletedInTheSameFile) {
  const std::string sample = HOLDFAST_SAMPLES "/gcc-5-pie/sample";
  const std::string notes = Command("readelf -n " + sample).output;
  std::smatch match;
  ASSERT_TRUE(std::regex_search(notes, match, std::regex("Build ID: ([0-9a-f]+)")));
  std::string build_id;
  for (ptrdiff_t i = 0; i < match[1].length(); i += 2)
    build_id += static_cast<char>(std::stoi(std::string(match[1]).substr(i, 2), nullptr, 16));
  const std::vector<uint64_t> addresses = CodeAddresses(sample, 50);
  constexpr uint64_t kBias = 0x550000000000;
  const Folder folder;
  const TablesFolder tables;
  FakeTarget target(tables.path(), folder.File("out"), [&](MadeTable& table) {
    table.AddModule(sample, build_id, kBias, kBias + 0x1000000, {{kBias, kBias + 0x1000000, 0}});
    for (const uint64_t address : addresses) table.AddHeapRow(table.AddStack({kBias + address + 1}), 100, 5, 2);
  });
  auto in = OpenFolder(tables.path());
  ASSERT_TRUE(in.ok());
  auto table = TableFile::Open(*in, std::filesystem::path(target.path()).filename());
  ASSERT_TRUE(table.ok()) << table.status();
  const auto output = OutputFolder::Open(folder.File("out"));
  ASSERT_TRUE(output.ok());
  ModuleSymbolizer symbolizer(DebugFileFinder::Options{.roots = {}});
  ProcessExporter exporter(*std::move(table));
  const auto written = exporter.Export(*output, symbolizer, Deadline::In(std::chrono::milliseconds(0)));
  ASSERT_TRUE(written.ok()) << written.status();
  ASSERT_EQ(written->size(), 1u);
  const std::string path = folder.File("out/" + (*written)[0].ToString());
  const auto top = [&] { return Catch([&](auto& out, auto& err) { return RunTop({.files = {path}}, out, err); }).out; };
  const auto with_lines = [&] {
    const auto profile = ReadPprofFile(path);
    size_t count = 0;
    for (const Profile::Location& location : profile->locations) {
      for (const Profile::Line& line : profile->LinesOf(location)) count += line.line != 0;
    }
    return count;
  };
  EXPECT_TRUE(exporter.HasIncompleteFiles());
  EXPECT_EQ(with_lines(), 0u);
  EXPECT_THAT(top(), HasSubstr("names    inlined functions and lines of sample were not ready when this was written"));

  ModuleSymbolizer patient(DebugFileFinder::Options{.roots = {}});
  exporter.CompleteFiles(*output, patient);
  exporter.FilesAreCompleted();
  EXPECT_FALSE(exporter.HasIncompleteFiles());
  EXPECT_GE(with_lines(), addresses.size());
  EXPECT_THAT(top(), Not(HasSubstr("not ready")));
  EXPECT_EQ(ReadPprofFile(path)->Total(0), 5 * static_cast<int64_t>(addresses.size()));
}

}  // namespace
}  // namespace holdfast::testing
