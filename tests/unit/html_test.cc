// The parts of `holdfast html` that need no browser: a tool without the page, files that are replaced or not, sources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "report/base/json_text.h"
#include "report/page/html_report.h"
#include "report/page/html_source.h"
#include "report/page/report_builder.h"
#include "report/page/web_template.h"

namespace holdfast {

// As in a tool that was built with -DHOLDFAST_WEB=OFF: this one is linked instead of the library's.
std::string_view WebTemplate() { return {}; }

namespace {

using testing::HasSubstr;

class HtmlTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/html_test." + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Put(const std::string& name, const std::string& text) { std::ofstream(Path(name)) << text; }
  std::string Read(const std::string& name) const {
    std::ifstream in(Path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string folder_;
};

TEST_F(HtmlTest, AToolWithoutThePageSaysSo) {
  HtmlOptions options;
  options.files = {Path("any.pb.gz")};
  std::ostringstream err;
  const auto html = RenderHtml(options, err);
  ASSERT_FALSE(html.ok());
  EXPECT_THAT(std::string(html.status().message()), HasSubstr("built without the report's page"));
  EXPECT_THAT(std::string(html.status().message()), HasSubstr("holdfast top"));
}

TEST_F(HtmlTest, OnlyHtmlIsReplaced) {
  const std::string page = "<!doctype html>\n<p>new";
  EXPECT_TRUE(WriteHtml(Path("new.html"), page).ok());
  EXPECT_EQ(Read("new.html"), page);
  Put("old.html", "<!doctype html>\n<p>old");
  EXPECT_TRUE(WriteHtml(Path("old.html"), page).ok());
  EXPECT_EQ(Read("old.html"), page);
  Put("empty.html", "");
  EXPECT_TRUE(WriteHtml(Path("empty.html"), page).ok());
  Put("app.heap.pb.gz", "\x1f\x8b profile");
  EXPECT_THAT(std::string(WriteHtml(Path("app.heap.pb.gz"), page).message()), HasSubstr("was not replaced"));
  EXPECT_EQ(Read("app.heap.pb.gz"), "\x1f\x8b profile");
  EXPECT_FALSE(WriteHtml(folder_, page).ok());
  EXPECT_FALSE(WriteHtml(Path("no/such/folder.html"), page).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 4) << "a temporary file was left";
}

TEST_F(HtmlTest, AReportCanBePrivate) {
  ASSERT_TRUE(WriteHtml(Path("private.html"), "<!doctype html>", Readers::kOwner).ok());
  struct stat status;
  ASSERT_EQ(stat(Path("private.html").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(HtmlTest, SourcesAreTheLinesAroundNamedLines) {
  std::string text;
  for (int i = 1; i <= 60; ++i) text += "line " + std::to_string(i) + "\n";
  Put("a.cc", text);
  const SourceText source = ReadSource(Path("a.cc"), {10, 12, 50, 1000});
  ASSERT_EQ(source.chunks.size(), 2u);
  EXPECT_EQ(source.chunks[0].first, 4);
  EXPECT_THAT(source.chunks[0].second, testing::StartsWith("line 4\nline 5\n"));
  EXPECT_THAT(source.chunks[0].second, testing::EndsWith("\nline 18"));
  EXPECT_EQ(source.chunks[1].first, 44);
}

TEST_F(HtmlTest, FilesThatAreNotSourcesAreNotRead) {
  Put("id_rsa", "secret\nsecret\n");
  std::filesystem::create_directory(Path("folder.cc"));
  for (const std::string name : {"id_rsa", "folder.cc", "missing.cc"}) {
    EXPECT_TRUE(ReadSource(Path(name), {1}).chunks.empty()) << name;
  }
  Put("large.cc", std::string(5 << 20, '\n'));
  EXPECT_TRUE(ReadSource(Path("large.cc"), {1}).chunks.empty());
}

TEST(JsonText, EscapesAndRepairs) {
  JsonText json;
  json.Open('{').Key("a\"b").Open('[').Number(-1).String("\n\\\x01").Null().Bool(true).Close(']');
  json.Key("bad").String("\xff").Close('}');
  EXPECT_EQ(json.text(), "{\"a\\\"b\":[-1,\"\\u000a\\\\\\u0001\",null,true],\"bad\":\"\uFFFD\"}");
}

ProfileFile FileOf(const std::string& path, const std::shared_ptr<Profile>& profile) {
  ProfileFile file = DescribeFile(path, *profile);
  file.profile = profile;
  return file;
}

TEST(ReportBuilder, TheSameSnapshotIsTakenOnce) {
  const auto profile = std::make_shared<Profile>();
  profile->sample_types.push_back({profile->strings.Intern("inuse_space"), profile->strings.Intern("bytes")});
  profile->time_nanos = 1000;
  profile->mutable_process()->id = "a/b/1/2/0";
  ReportBuilder data;
  EXPECT_TRUE(data.Add(FileOf("a.pb.gz", profile), false, true));
  EXPECT_FALSE(data.Add(FileOf("copy.pb.gz", profile), false, true));
  EXPECT_TRUE(data.Add(FileOf("a.pb.gz", profile), true, true)) << "the base is another side";
  EXPECT_THAT(data.NewestFiles(), testing::ElementsAre("a.pb.gz"));
  EXPECT_EQ(data.Encode().substr(0, 4), "HFR1");
}

// A page compares functions by name.
TEST(ReportBuilder, AFunctionOfTwoBuildsHasOneName) {
  ReportBuilder data({}, {}, true);
  for (const bool is_base : {true, false}) {
    const auto profile = std::make_shared<Profile>();
    const auto text = [&](std::string_view t) { return profile->strings.Intern(t); };
    profile->sample_types.push_back({text("inuse_space"), text("bytes")});
    profile->functions.push_back({.name = text(is_base ? "parse::{lambda(int)#1}" : "parse::{lambda(int)#2}.cold")});
    const Profile::Line line{.function = 0, .line = 1};
    Profile::Location location;
    profile->SetLines(&location, {&line, 1});
    profile->locations.push_back(location);
    const uint32_t frame = 0;
    const int64_t value = 1;
    profile->AddSample({&frame, 1}, {&value, 1}, {});
    EXPECT_TRUE(data.Add(FileOf("a.pb.gz", profile), is_base, true));
  }
  const std::string encoded = data.Encode();
  EXPECT_THAT(encoded, ::testing::HasSubstr("parse::{lambda}"));
  EXPECT_THAT(encoded, ::testing::Not(::testing::HasSubstr("lambda(int)")));
}

}  // namespace
}  // namespace holdfast
