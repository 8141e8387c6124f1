// `holdfast bundle`: one file that somebody else can read, without the program and its sources.
#include <gmock/gmock.h>

#include <filesystem>

#include "fmt/format.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTool = HOLDFAST_TOOL;

class Bundle : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("DEBUGINFOD_URLS");
    // A program with a long path: such names do not fit into tar's first header.
    source_ = folder_.File(std::string(60, 'd') + "/" + std::string(60, 'e'));
    std::filesystem::create_directories(source_);
    std::ofstream(source_ + "/holds.cc")
        << "#include <cstdlib>\nvoid* kept;\nvoid holds() {\n  kept = malloc(12345);\n}\n"
           "int main() {\n  holds();\n  return 0;\n}\n";
    Do("g++ -O0 -g -Wl,--build-id -o holds " + source_ + "/holds.cc");
    Do(kTool + " run -q -o out --heap-interval 1 -- ./holds");
    Do("cp out/*.heap.pb.gz holds.heap.pb.gz");
  }
  std::string Do(const std::string& command) {
    const CommandResult result = Command("cd " + folder_.path() + " && " + command);
    EXPECT_EQ(result.status, 0) << command << "\n" << result.output;
    return result.output;
  }

  Folder folder_;
  std::string source_;
};

TEST_F(Bundle, IsReadWithoutTheProgramAndItsSources) {
  Do(kTool + " symbolize -q --symbols none holds.heap.pb.gz");
  Do(kTool + " bundle -o sent.tar.gz holds.heap.pb.gz");
  Do("rm -r holds out holds.heap.pb.gz " + source_);
  Do("tar xzf sent.tar.gz");
  EXPECT_THAT(Do(kTool + " top sent/holds.heap.pb.gz"), HasSubstr("  holds  (holds)"));
  EXPECT_THAT(ReadWhole(folder_.File("sent/source" + source_ + "/holds.cc")), HasSubstr("kept = malloc(12345)"));
  EXPECT_THAT(ReadWhole(folder_.File("sent/README.txt")), HasSubstr("holds.heap.pb.gz"));
  const std::string listed = GoPprof("-list holds -trim_path / -source_path " + folder_.File("sent/source"),
                                     folder_.File("sent/holds.heap.pb.gz"))
                                 .output;
  EXPECT_THAT(listed, HasSubstr("kept = malloc(12345)"));
  EXPECT_THAT(listed, HasSubstr("12.06kB"));
}

TEST_F(Bundle, TextIsLeftOutWhenAskedOrChangedSince) {
  Do(kTool + " bundle --no-source -o bare.tar.gz holds.heap.pb.gz");
  EXPECT_THAT(Do("tar tzf bare.tar.gz"), Not(HasSubstr("/source/")));
  std::filesystem::last_write_time(source_ + "/holds.cc",
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(10));
  Do(kTool + " bundle -o changed.tar.gz holds.heap.pb.gz");
  EXPECT_THAT(Do("tar tzf changed.tar.gz"), Not(HasSubstr("holds.cc")));
  EXPECT_THAT(Do("tar xzOf changed.tar.gz changed/README.txt"), HasSubstr(source_ + "/holds.cc"));
}

TEST_F(Bundle, AFolderMeansTheProfilesInIt) {
  folder_.Write("out/damaged.pb.gz", "nothing");
  EXPECT_THAT(Do(kTool + " bundle -o all.tar.gz out"), HasSubstr("damaged.pb.gz"));
  const std::string listed = Do("tar tzf all.tar.gz");
  EXPECT_THAT(listed, HasSubstr(".heap.pb.gz"));
  EXPECT_THAT(listed, Not(HasSubstr("damaged")));
  Do("mkdir none && cp out/damaged.pb.gz none/");
  EXPECT_EQ(Command(kTool + " bundle -o " + folder_.File("x.tar.gz") + " " + folder_.File("none")).status, 3);
}

TEST_F(Bundle, FilesOfOneNameAreKeptApartAndDamagedOnesAreAnError) {
  Do("mkdir other && cp holds.heap.pb.gz other/");
  Do(kTool + " bundle -o two.tar.gz holds.heap.pb.gz other/holds.heap.pb.gz");
  EXPECT_THAT(Do("tar tzf two.tar.gz"), HasSubstr("two/2.holds.heap.pb.gz"));
  folder_.Write("bad.pb.gz", "nothing");
  const CommandResult bad = Command(kTool + " bundle -o " + folder_.File("x.tar.gz") + " " + folder_.File("bad.pb.gz"));
  EXPECT_EQ(bad.status, 3);
  EXPECT_FALSE(std::filesystem::exists(folder_.File("x.tar.gz")));
}

}  // namespace
}  // namespace holdfast::testing
