// What the tests of pprof files share: a folder that is removed again, commands, `go tool pprof`, a small profile.
#ifndef HOLDFAST_TESTS_UNIT_PPROF_FIXTURE_H_
#define HOLDFAST_TESTS_UNIT_PPROF_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"

namespace holdfast::testing {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/holdfast-test.XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

  std::string Write(std::string_view name, std::string_view bytes) const {
    std::ofstream(File(name), std::ios::binary) << bytes;
    return File(name);
  }

 private:
  std::string path_;
};

inline std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct CommandResult {
  std::string output;  // standard output and standard error
  int status;
};

inline CommandResult Command(const std::string& command) {
  CommandResult result;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) result.output.append(buffer.data(), n);
  result.status = WEXITSTATUS(pclose(pipe));
  return result;
}

inline CommandResult GoPprof(const std::string& options, const std::string& file) {
  return Command("GOFLAGS= PPROF_TMPDIR=/tmp go tool pprof -symbolize=none " + options + " " + file);
}

using Rows = std::map<std::string, std::pair<int64_t, int64_t>>;  // function → self, total

// The rows of `go tool pprof -top`.
inline Rows GoTop(const std::string& file, const std::string& metric, const std::string& unit) {
  const CommandResult result =
      GoPprof("-top -nodecount=0 -nodefraction=0 -edgefraction=0 -sample_index=" + metric + " -unit=" + unit, file);
  EXPECT_EQ(result.status, 0) << result.output;
  static const std::regex row(
      R"(^ *(-?\d+)(?:\.\d+)?\D* +\S+% +\S+% +(-?\d+)(?:\.\d+)?\D* +\S+%  (.*?)(?: \((?:partial-)?inline\))?$)");
  Rows rows;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, row)) rows[match[3]] = {std::stoll(match[1]), std::stoll(match[2])};
  }
  return rows;
}

// Returns the profile with the records of its comments, as after it was written and read.
inline Profile WithRecords(const Profile& profile) { return *DecodePprof(EncodePprof(profile), "with records"); }

// main → parse → grow, with an inlined function and labels; 4 metrics as in a heap profile.
inline Profile SmallProfile() {
  Profile p;
  const auto text = [&](std::string_view t) { return p.strings.Intern(t); };
  for (const char* type : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
    p.sample_types.push_back({text(type), text(std::string_view(type).ends_with("objects") ? "count" : "bytes")});
  }
  p.default_sample_type = text("inuse_space");
  p.period_type = {text("space"), text("bytes")};
  p.period = 524288;
  p.time_nanos = 1700000000123456789;
  p.mappings.push_back({.start = 0x400000,
                        .limit = 0x500000,
                        .offset = 0x1000,
                        .file = text("/usr/bin/app"),
                        .build_id = text("00112233"),
                        .has_functions = true});
  p.mappings.push_back({.start = 0x7f0000000000,
                        .limit = 0x7f0000100000,
                        .offset = 0,
                        .file = text("/usr/lib/libx.so.1"),
                        .build_id = text("aabb"),
                        .has_functions = true});
  for (const char* name : {"main", "app::parse(std::string const&)", "app::grow(int)", "x_alloc"}) {
    p.functions.push_back({.name = text(name), .system_name = 0, .filename = 0, .start_line = 7});
  }
  const auto location = [&](uint64_t address, uint32_t mapping, std::initializer_list<Profile::Line> lines) {
    Profile::Location made{.address = address, .mapping = mapping};
    p.SetLines(&made, {lines.begin(), lines.size()});
    p.locations.push_back(made);
  };
  location(0x400100, 0, {{0, 12}});
  location(0x400200, 0, {{2, 34}, {1, 56}});  // grow inlined into parse
  location(0x7f0000000010, 1, {{3, 0}});
  const auto sample = [&](std::initializer_list<uint32_t> frames, std::array<int64_t, 4> values, int64_t bytes) {
    const Profile::Label label{.key = text("bytes"), .number = bytes, .unit = text("bytes")};
    p.AddSample({frames.begin(), frames.size()}, values, {&label, 1});
  };
  sample({2, 1, 0}, {10, 1000, 4, 400}, 104);
  sample({1, 0}, {3, 96, 3, 96}, 32);
  sample({0}, {1, 0, 1, 0}, 0);
  p.AddComment("kind: heap");
  p.AddComment("total inuse_space: 496 ± 12");
  return p;
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_UNIT_PPROF_FIXTURE_H_
