// Any environment for the library, any value for an option of `run`. Lines are variables.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "report/base/value_units.h"
#include "report/run/run_options.h"
#include "sampler/contract/options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      lines.emplace_back();
    } else if (data[i] != 0) {
      lines.back() += static_cast<char>(data[i]);
    }
  }
  std::vector<const char*> environment;
  for (const std::string& line : lines) environment.push_back(line.c_str());
  environment.push_back(nullptr);
  static holdfast::Options options;
  options = {};
  // Complaints about bad values go nowhere, libFuzzer's own words where they should.
  static const int null = open("/dev/null", O_WRONLY), error = dup(2);
  dup2(null, 2);
  holdfast::ReadOptions(environment.data(), &options);
  dup2(error, 2);
  for (const std::string& line : lines) {
    const std::string value = line.substr(line.find('=') + 1);
    holdfast::ParseByteSize(value).IgnoreError();
    holdfast::ParseTimeNs(value).IgnoreError();
    for (const char* name : {"heap-interval", "lock-interval", "keep", "max-disk", "max-memory", "profiles", "signal",
                             "children", "seed"}) {
      // What `run` accepts and hands on, the library must accept, too.
      const absl::StatusOr<std::string> normal = holdfast::NormalizeRunOption(name, value);
      if (!normal.ok()) continue;
      uint64_t number;
      if (std::string(name) == "heap-interval" && !holdfast::ParseSize(normal->c_str(), &number)) __builtin_trap();
      if (std::string(name) == "lock-interval" && !holdfast::ParseTime(normal->c_str(), &number)) __builtin_trap();
    }
  }
  holdfast::ProgramEnvironment(environment.data(), "/lib/libholdfast.so", {});
  return 0;
}
