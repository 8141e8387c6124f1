#include "tests/symbols/oracle.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "fmt/format.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast::testing {
namespace {

// name → its address, and address → all its names.
struct Symbols {
  std::map<std::string, std::set<uint64_t>> addresses;
  bool SameFunction(const std::string& a, const std::string& b) const {
    if (a == b) return true;
    const auto first = addresses.find(a), second = addresses.find(b);
    if (first == addresses.end() || second == addresses.end()) return false;
    return std::any_of(first->second.begin(), first->second.end(),
                       [&](uint64_t address) { return second->second.contains(address); });
  }
};

Symbols ReadSymbols(const std::string& file) {
  Symbols symbols;
  std::istringstream lines(Command("nm " + file + " 2>/dev/null; nm -D " + file + " 2>/dev/null").output);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 20 || line[0] == ' ') continue;
    std::string name = line.substr(19);
    if (const size_t version = name.find('@', 1); version != std::string::npos) name.resize(version);
    symbols.addresses[name].insert(std::stoull(line.substr(0, 16), nullptr, 16));
  }
  return symbols;
}

}  // namespace

std::string LlvmSymbolizer() {
  for (const char* name : {"llvm-symbolizer", "llvm-symbolizer-14"}) {
    if (Command(fmt::format("command -v {}", name)).status == 0) return name;
  }
  return "";
}

std::vector<OracleFrames> AskLlvm(const std::string& file, const std::vector<uint64_t>& addresses) {
  Folder folder;
  std::string input;
  for (const uint64_t address : addresses) input += fmt::format("0x{:x}\n", address);
  const CommandResult result = Command(fmt::format("{} --obj={} --functions=linkage --inlines --no-demangle < {}",
                                                   LlvmSymbolizer(), file, folder.Write("addresses", input)));
  EXPECT_EQ(result.status, 0) << result.output.substr(0, 1000);
  std::vector<OracleFrames> all(1);
  std::istringstream lines(result.output);
  for (std::string function, place; std::getline(lines, function);) {
    if (function.empty()) {
      all.emplace_back();
      continue;
    }
    std::getline(lines, place);
    OracleFrame frame;
    if (function != "??") frame.function = function;
    const size_t column = place.rfind(':'), line = place.rfind(':', column - 1);
    frame.file = place.substr(0, line);
    frame.line = static_cast<uint32_t>(std::stoul(place.substr(line + 1, column - line - 1)));
    // For code without debug information it takes a file from the symbol table (STT_FILE): `crtstuff.c`, no line, no
    // folder.
    if (frame.file == "??" || (frame.line == 0 && frame.file.find('/') == std::string::npos)) frame.file.clear();
    all.back().push_back(frame);
  }
  all.resize(addresses.size());
  return all;
}

std::vector<uint64_t> CodeAddresses(const std::string& file, size_t count) {
  const std::string sections = Command("readelf -SW " + file).output;
  std::smatch match;
  if (!std::regex_search(sections, match, std::regex(R"(\.text +\w+ +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+))"))) return {};
  const uint64_t start = std::stoull(match[1], nullptr, 16), size = std::stoull(match[2], nullptr, 16);
  std::mt19937_64 random(7);
  std::set<uint64_t> addresses;
  while (addresses.size() < std::min<uint64_t>(count, size)) addresses.insert(start + random() % size);
  return {addresses.begin(), addresses.end()};
}

std::vector<OracleFrames> AskHoldfast(ModuleSymbolizer* symbolizer, const std::string& path,
                                      const std::string& build_id, const std::vector<uint64_t>& addresses) {
  std::vector<OracleFrames> all(addresses.size());
  const auto module = symbolizer->Find(path, build_id);
  EXPECT_TRUE(module.ok()) << module.status();
  if (!module.ok()) return all;
  EXPECT_TRUE((*module)->LoadLines(addresses, Deadline::Never()));
  std::vector<ModuleSymbolizer::Frame> frames;
  for (size_t i = 0; i < addresses.size(); ++i) {
    (*module)->FramesAt(addresses[i], &frames);
    for (const ModuleSymbolizer::Frame& frame : frames) {
      const std::string& linked = frame.name->system_name.empty() ? frame.name->name : frame.name->system_name;
      all[i].push_back({linked, std::string(frame.file), frame.line});
    }
    if (frames.empty()) all[i].push_back({});
  }
  return all;
}

Comparison Compare(const std::string& file, const std::vector<uint64_t>& addresses,
                   const std::vector<OracleFrames>& theirs, const std::vector<OracleFrames>& ours) {
  const Symbols symbols = ReadSymbols(file);
  Comparison result;
  result.addresses = addresses.size();
  for (size_t i = 0; i < addresses.size(); ++i) {
    result.frames += theirs[i].size();
    result.with_inlines += theirs[i].size() > 1;
    for (const OracleFrame& frame : theirs[i]) result.lines += frame.line != 0;
    const bool equal = std::equal(
        theirs[i].begin(), theirs[i].end(), ours[i].begin(), ours[i].end(),
        [&](const OracleFrame& a, const OracleFrame& b) {
          // A function without a linkage name has its plain name there, and its scopes before it here.
          const bool is_qualified = !a.function.empty() && b.function.ends_with("::" + a.function);
          return a.file == b.file && a.line == b.line && (is_qualified || symbols.SameFunction(a.function, b.function));
        });
    if (equal) continue;
    if (++result.different > 5) continue;
    const auto show = [](const OracleFrames& frames) {
      std::string text;
      for (const OracleFrame& frame : frames)
        text += fmt::format("    {} {}:{}\n", frame.function, frame.file, frame.line);
      return text;
    };
    result.first_differences +=
        fmt::format("0x{:x}\n  llvm-symbolizer\n{}  holdfast\n{}", addresses[i], show(theirs[i]), show(ours[i]));
  }
  return result;
}

Comparison CompareWithLlvm(const std::string& path, const std::string& oracle_file, size_t count,
                           const DebugFileFinder::Options& options) {
  const std::string notes = Command("readelf -n " + oracle_file).output;
  std::smatch match;
  const std::string id =
      std::regex_search(notes, match, std::regex("Build ID: ([0-9a-f]+)")) ? std::string(match[1]) : "";
  const std::vector<uint64_t> addresses = CodeAddresses(oracle_file, count);
  ModuleSymbolizer symbolizer(options);
  return Compare(oracle_file, addresses, AskLlvm(oracle_file, addresses),
                 AskHoldfast(&symbolizer, path, id, addresses));
}

}  // namespace holdfast::testing
