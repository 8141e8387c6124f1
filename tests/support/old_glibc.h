// This system's glibc as if it were older: a copy without some functions of newer versions.
//
//     command.env["LD_LIBRARY_PATH"] = FolderOfOldGlibc(folder());
//
// For C programs that call none of these functions. C++ ones may need them: libgcc_s calls _dl_find_object.
#ifndef HOLDFAST_TESTS_SUPPORT_OLD_GLIBC_H_
#define HOLDFAST_TESTS_SUPPORT_OLD_GLIBC_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/profiled.h"

namespace holdfast::testing {

// The newest are of 2.17. Renames the functions in the table of symbols.
inline std::string FolderOfOldGlibc(const std::string& folder) {
  const std::string objects = Execute({.argv = {"ldd", ProgramPath("allocators")}}).out;
  const size_t start = objects.find('/', objects.find("libc.so.6"));
  EXPECT_NE(start, std::string::npos) << objects;
  std::string bytes = ReadFile(objects.substr(start, objects.find(' ', start) - start));
  for (const char* function : {"_dl_find_object", "_Fork", "gettid", "close_range", "pthread_cond_clockwait",
                               "pthread_mutex_clocklock", "pthread_rwlock_clockrdlock", "pthread_rwlock_clockwrlock",
                               "pthread_clockjoin_np", "sem_clockwait", "free_sized", "free_aligned_sized"}) {
    const std::string name = std::string("\0", 1) + function + std::string("\0", 1);
    if (const size_t at = bytes.find(name); at != std::string::npos) bytes[at + 1] = '?';
  }
  const std::string made = folder + "/old_glibc";
  std::filesystem::create_directory(made);
  WriteFile(made + "/libc.so.6", bytes);
  return made;
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_OLD_GLIBC_H_
