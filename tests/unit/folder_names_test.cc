#include "report/base/folder_names.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "report/observe/table/table_folder.h"
#include "tests/unit/fake_target.h"

static bool lacks_memory = false;

extern "C" DIR* fdopendir(int fd) {
  if (lacks_memory) {
    errno = ENOMEM;
    return nullptr;
  }
  static const auto real = reinterpret_cast<DIR* (*)(int)>(dlsym(RTLD_NEXT, "fdopendir"));
  return real(fd);
}

namespace holdfast {
namespace {

TEST(FolderNames, ListsAFolderTwice) {
  const testing::TablesFolder folder;
  folder.Write("a", "");
  folder.Write("b", "");
  const FileDescriptor opened(open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 2; ++i) {
    std::set<std::string> names;
    EXPECT_TRUE(ForEachName(opened.get(), [&names](const char* name) { names.insert(name); }));
    EXPECT_EQ(names, (std::set<std::string>{".", "..", "a", "b"}));
  }
}

TEST(FolderNames, WithoutMemoryThereAreNoNamesAndNoDescriptorIsLost) {
  const testing::TablesFolder folder;
  const FileDescriptor opened(open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto free_descriptor = [] { return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)).get(); };
  const int before = free_descriptor();
  lacks_memory = true;
  const bool is_listed = ForEachName(opened.get(), [](const char*) {});
  const int error = errno;
  const std::vector<std::string> names = ListTableNames(opened);
  lacks_memory = false;
  EXPECT_FALSE(is_listed);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_TRUE(names.empty());
  EXPECT_EQ(free_descriptor(), before);
}

}  // namespace
}  // namespace holdfast
