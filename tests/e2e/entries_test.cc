// Allocators that are linked into the executable: what is said of them.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LinkedAllocators : public Profiled {};

TEST_F(LinkedAllocators, DoctorSaysThatAMallocOfTheExecutableIsNotSeen) {
  const RunResult r = RunTool({"doctor", "--", ProgramPath("own_malloc")});
  EXPECT_TRUE(r.exited(1)) << r.Describe();
  EXPECT_THAT(r.out, HasSubstr("NO    allocator   own_malloc defines malloc and free itself"));
  EXPECT_THAT(r.out, Not(HasSubstr("reach it through the library")));
}

TEST_F(LinkedAllocators, RunSaysWhyThereIsNoHeapProfile) {
  const RunResult r = RunTool({"run", "-o", out(), "--", ProgramPath("own_malloc")});
  EXPECT_THAT(r.err, HasSubstr("own_malloc defines malloc and free itself"));
}

// A stripped allocator is known by its messages alone.
TEST_F(LinkedAllocators, DoctorNamesOneWithoutSymbols) {
  const std::string path = folder() + "/stripped";
  std::filesystem::copy_file(ProgramPath("nothing"), path);
  EXPECT_THAT(RunTool({"doctor", "--", path}).out, Not(HasSubstr("linked in, without symbols")));
  for (const auto& [message, allocator] : {std::pair<const char*, const char*>{"<jemalloc>: out of memory", "jemalloc"},
                                           {"mimalloc: warning: ", "mimalloc"},
                                           {"tcmalloc: large alloc ", "tcmalloc"}}) {
    std::filesystem::copy_file(ProgramPath("speaks_as_allocator"), path,
                               std::filesystem::copy_options::overwrite_existing);
    // The program has room for the message in its constant data.
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const size_t at = bytes.find("room for a message of an allocator");
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(message, static_cast<std::streamsize>(std::char_traits<char>::length(message)));
    file.close();
    const RunResult r = RunTool({"doctor", "--", path});
    EXPECT_TRUE(r.exited(1)) << r.Describe();
    EXPECT_THAT(r.out,
                HasSubstr(std::string("NO    allocator   stripped has ") + allocator +
                          " linked in, without symbols: what it takes from that is not seen; install its debug"));
  }
}

}  // namespace
}  // namespace holdfast::testing
