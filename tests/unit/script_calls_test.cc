#include "report/run/script_calls.h"

#include <gmock/gmock.h>

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ScriptCallsTest, BothFormsOfImportNameModules) {
  EXPECT_THAT(ImportedModules("import os, sys as s; import a.b\n"), ElementsAre("os", "sys", "a.b"));
  EXPECT_THAT(ImportedModules("  from a import (b,  # the first\n"), ElementsAre("a", "a.b"));
  EXPECT_THAT(ImportedModules("from . import b\nfrom ..c import d as e\n"), ElementsAre(".", ".b", "..c", "..c.d"));
  EXPECT_THAT(ImportedModules("from a import *\n"), ElementsAre("a"));
  EXPECT_THAT(ImportedModules("# import a\nimportant = 1\nfrom_a = 2\nfrom a\nfrom import\n"), IsEmpty());
}

}  // namespace
}  // namespace holdfast
