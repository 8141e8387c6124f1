#include "report/base/folder_names.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include "report/observe/table/table_folder.h"
#include "tests/unit/fake_target.h"

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

// More names than one system call returns.
TEST(FolderNames, ListsEachOfManyNamesOnce) {
  const testing::TablesFolder folder;
  constexpr size_t kFiles = 500;
  for (size_t i = 0; i < kFiles; ++i) folder.Write(std::to_string(i) + std::string(200, 'x'), "");
  const FileDescriptor opened(open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::multiset<std::string> names;
  EXPECT_TRUE(ForEachName(opened.get(), [&names](const char* name) { names.insert(name); }));
  EXPECT_EQ(names.size(), kFiles + 2);
  for (const std::string& name : names) EXPECT_EQ(names.count(name), 1u) << name;
}

TEST(FolderNames, WithoutDescriptorsThereAreNoNames) {
  const testing::TablesFolder folder;
  folder.Write("holdfast.0.1.1.1.1.table", "");
  const FileDescriptor opened(open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int next = FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
  rlimit before, none;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool is_listed = ForEachName(opened.get(), [](const char*) {});
  const int error = errno;
  const std::vector<std::string> names = ListTableNames(opened);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(is_listed);
  EXPECT_EQ(error, EMFILE);
  EXPECT_TRUE(names.empty());
}

}  // namespace
}  // namespace holdfast
