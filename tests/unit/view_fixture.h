// For tests of views: profiles from stacks written as text, and random ones; what a command says.
#ifndef HOLDFAST_TESTS_UNIT_VIEW_FIXTURE_H_
#define HOLDFAST_TESTS_UNIT_VIEW_FIXTURE_H_

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/view_numbers.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast::testing {

// What a command said.
struct Result {
  int exit_code;
  std::string out, err;
};
template <typename Run>
Result Catch(Run run) {
  std::ostringstream out, err;
  const int exit_code = run(out, err);
  return {exit_code, out.str(), err.str()};
}

// Frames from the outermost on, separated by ';', each perhaps "object!name" (else "app"): "main;libx.so!x_alloc".
struct Stack {
  std::string frames;
  int64_t bytes;
  int64_t objects = 1;
  int64_t allocated_bytes = -1, allocated_objects = -1;  // -1: what is in use, nothing was freed
};

// A heap profile, sampled at every byte; each function is in line 1 of
// main.cc. Labels: bytes, thread (`thread`; "": none).
inline Profile StackProfile(const std::vector<Stack>& stacks, std::string_view thread = "worker") {
  Profile p;
  const auto text = [&](std::string_view t) { return p.strings.Intern(t); };
  for (const char* type : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
    p.sample_types.push_back({text(type), text(std::string_view(type).ends_with("objects") ? "count" : "bytes")});
  }
  p.default_sample_type = text("inuse_space");
  p.period_type = {text("space"), text("bytes")};
  p.period = 1;
  p.time_nanos = 1700000000000000000;
  std::map<std::string, uint32_t> objects, locations;
  const auto object = [&](const std::string& name) {
    const auto [place, added] = objects.emplace(name, static_cast<uint32_t>(p.mappings.size()));
    if (added) {
      const uint64_t start = 0x400000 + 0x1000000 * p.mappings.size();
      p.mappings.push_back({.start = start,
                            .limit = start + 0x100000,
                            .offset = 0,
                            .file = text("/usr/bin/" + name),
                            .build_id = text("b1d" + name),
                            .has_functions = true});
    }
    return place->second;
  };
  object("app");
  const auto location = [&](const std::string& frame) {
    const auto [place, added] = locations.emplace(frame, static_cast<uint32_t>(p.locations.size()));
    if (!added) return place->second;
    const size_t mark = frame.find('!');
    const uint32_t mapping = object(mark == std::string::npos ? "app" : frame.substr(0, mark));
    const Profile::Line line{.function = static_cast<uint32_t>(p.functions.size()), .line = 1};
    p.functions.push_back({.name = text(mark == std::string::npos ? frame : frame.substr(mark + 1)),
                           .filename = text("main.cc"),
                           .start_line = 1});
    // By its name: the same in every profile that is made so.
    Profile::Location made{.address = p.mappings[mapping].start + 1 + std::hash<std::string>()(frame) % 0xffff0,
                           .mapping = mapping};
    p.SetLines(&made, {&line, 1});
    p.locations.push_back(made);
    return place->second;
  };
  for (const Stack& stack : stacks) {
    std::vector<uint32_t> frames;
    std::istringstream names(stack.frames);
    for (std::string name; std::getline(names, name, ';');) frames.push_back(location(name));
    std::reverse(frames.begin(), frames.end());
    const std::array<int64_t, 4> values = {stack.allocated_objects < 0 ? stack.objects : stack.allocated_objects,
                                           stack.allocated_bytes < 0 ? stack.bytes : stack.allocated_bytes,
                                           stack.objects, stack.bytes};
    const std::array<Profile::Label, 2> labels = {
        {{.key = text("bytes"), .number = stack.bytes / std::max<int64_t>(1, stack.objects), .unit = text("bytes")},
         {.key = text("thread"), .text = text(thread)}}};
    p.AddSample(frames, values, std::span(labels).first(thread.empty() ? 1 : 2));
  }
  p.AddComment("kind: heap");
  p.AddComment("program: app");
  return p;
}

// 400 stacks with recursion, inlined functions, functions in several objects, nameless frames and zeros.
inline Profile RandomProfile(unsigned seed) {
  std::mt19937 random(seed);
  const Profile p = SmallProfile();
  Profile fresh;
  for (const auto& type : p.sample_types) {
    fresh.sample_types.push_back(
        {fresh.strings.Intern(p.strings[type.type]), fresh.strings.Intern(p.strings[type.unit])});
  }
  fresh.default_sample_type = fresh.sample_types[3].type;
  for (int i = 0; i < 4; ++i) {
    fresh.mappings.push_back({.start = 0x100000u * (i + 1),
                              .limit = 0x100000u * (i + 1) + 0x80000,
                              .offset = 0,
                              .file = fresh.strings.Intern("/usr/lib/lib" + std::to_string(i) + ".so"),
                              .build_id = 0,
                              .has_functions = i != 3});
  }
  for (int i = 0; i < 60; ++i) {
    fresh.functions.push_back(
        {.name = fresh.strings.Intern("ns::f" + std::to_string(i % 50) + "(int, std::vector<char> const&)"),
         .system_name = fresh.strings.Intern("_Z" + std::to_string(i))});
  }
  for (int i = 0; i < 200; ++i) {
    const uint32_t mapping = random() % 4;
    Profile::Location location{.address = fresh.mappings[mapping].start + 16 * i + 1, .mapping = mapping};
    std::vector<Profile::Line> lines(mapping == 3 ? 0 : 1 + random() % 3);
    for (auto& line : lines) line = {static_cast<uint32_t>(random() % 60), static_cast<int64_t>(random() % 100)};
    fresh.SetLines(&location, lines);
    fresh.locations.push_back(location);
  }
  for (int i = 0; i < 400; ++i) {
    std::vector<uint32_t> frames(1 + random() % 30);
    for (auto& frame : frames) frame = random() % 200;
    const auto value = [&] { return random() % 5 == 0 ? int64_t{0} : static_cast<int64_t>(random() % 1000000); };
    const std::array<int64_t, 4> values = {value(), value(), value(), value()};
    const std::array<Profile::Label, 2> labels = {
        {{.key = fresh.strings.Intern("wait"), .text = fresh.strings.Intern(i % 3 == 0 ? "mutex" : "condition")},
         {.key = fresh.strings.Intern("bytes"), .number = 16 << i % 8, .unit = fresh.strings.Intern("bytes")}}};
    fresh.AddSample(frames, values, labels);
  }
  return fresh;
}

// `top --format csv --by what`: what → self, total.
inline std::map<std::string, std::pair<int64_t, int64_t>> ParseOurTopBy(const std::string& csv,
                                                                        const std::string& what) {
  std::map<std::string, std::pair<int64_t, int64_t>> rows;
  for (const auto& row : ParseCsv(csv)) rows[row.at(what)] = {NumberIn(row, "self"), NumberIn(row, "total")};
  return rows;
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_UNIT_VIEW_FIXTURE_H_
