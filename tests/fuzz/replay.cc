// Gives every file of the fuzzers' corpora to its reader in the ordinary build: as it is, cut short, and with bytes
// changed. The changes are the same in each run. scripts/fuzz searches further, with sanitizers.
//
//   replay_corpora NAME FOLDER [NAME FOLDER]…
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

// fuzz_NAME.cc, compiled with its entry point renamed.
extern "C" {
int FuzzPprof(const uint8_t* data, size_t size);
int FuzzTable(const uint8_t* data, size_t size);
int FuzzElf(const uint8_t* data, size_t size);
int FuzzDwarf(const uint8_t* data, size_t size);
int FuzzOptions(const uint8_t* data, size_t size);
int FuzzHttp(const uint8_t* data, size_t size);
int FuzzImage(const uint8_t* data, size_t size);
int FuzzCore(const uint8_t* data, size_t size);
}

namespace {

struct Reader {
  const char* name;
  int (*read)(const uint8_t* data, size_t size);
  int cuts = 16, changes = 64;
};
// A scan of an image reserves address space, which takes about 20 ms.
constexpr Reader kReaders[] = {{"pprof", FuzzPprof},       {"table", FuzzTable},     {"elf", FuzzElf},
                               {"dwarf", FuzzDwarf},       {"options", FuzzOptions}, {"http", FuzzHttp},
                               {"image", FuzzImage, 3, 6}, {"core", FuzzCore, 3, 6}};
constexpr int kBytesPerChange = 3;

// Returns the number of inputs that the reader got.
size_t Replay(const Reader& reader, const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  reader.read(bytes.data(), bytes.size());
  const auto cuts = static_cast<size_t>(reader.cuts), changes = static_cast<size_t>(reader.changes);
  for (size_t i = 1; i <= cuts; ++i) reader.read(bytes.data(), bytes.size() * i / (cuts + 1));
  if (bytes.empty()) return 1 + cuts;
  std::mt19937 random(1);
  for (size_t i = 0; i < changes; ++i) {
    std::vector<uint8_t> changed = bytes;
    for (int j = 0; j < kBytesPerChange; ++j) changed[random() % changed.size()] = static_cast<uint8_t>(random());
    reader.read(changed.data(), changed.size());
  }
  return 1 + cuts + changes;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto* reader = std::find_if(std::begin(kReaders), std::end(kReaders),
                                      [&](const Reader& other) { return strcmp(other.name, argv[i]) == 0; });
    size_t inputs = 0;
    std::error_code error;
    if (reader != std::end(kReaders)) {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i + 1], error))
        inputs += Replay(*reader, entry.path());
    }
    if (inputs == 0) {
      fprintf(stderr, "replay_corpora: %s: no reader of this name, or no file in %s.\n", argv[i], argv[i + 1]);
      return 2;
    }
    printf("%s: %zu inputs\n", argv[i], inputs);
  }
  return argc < 3 ? 2 : 0;
}
