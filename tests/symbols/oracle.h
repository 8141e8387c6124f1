// What llvm-symbolizer says of addresses, and whether our symbolizer says the same: every frame, with function, file
// and line.
#ifndef HOLDFAST_TESTS_SYMBOLS_ORACLE_H_
#define HOLDFAST_TESTS_SYMBOLS_ORACLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/names/symbolize/module_symbolizer.h"

namespace holdfast::testing {

struct OracleFrame {
  std::string function;  // as linked; "" unknown
  std::string file;      // "" unknown
  uint32_t line = 0;
  bool operator==(const OracleFrame&) const = default;
};
using OracleFrames = std::vector<OracleFrame>;

// The tool's path, "" when it is not installed.
std::string LlvmSymbolizer();

// Innermost first, for each ELF address of `file`.
std::vector<OracleFrames> AskLlvm(const std::string& file, const std::vector<uint64_t>& addresses);

// `count` addresses of .text, evenly drawn, sorted; always the same for the same file.
std::vector<uint64_t> CodeAddresses(const std::string& file, size_t count);

// Ours, for the same addresses.
std::vector<OracleFrames> AskHoldfast(ModuleSymbolizer* symbolizer, const std::string& path,
                                      const std::string& build_id, const std::vector<uint64_t>& addresses);

struct Comparison {
  size_t addresses = 0, frames = 0, with_inlines = 0, lines = 0, different = 0;
  std::string first_differences;
};

// Functions count as equal when they are names of one address (aliases): `file`'s symbols say.
Comparison Compare(const std::string& file, const std::vector<uint64_t>& addresses,
                   const std::vector<OracleFrames>& theirs, const std::vector<OracleFrames>& ours);

// All of it: `path` as the program had loaded it, `oracle_file` what llvm-symbolizer reads.
Comparison CompareWithLlvm(const std::string& path, const std::string& oracle_file, size_t count,
                           const DebugFileFinder::Options& options = {});

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SYMBOLS_ORACLE_H_
