// Names that compilers give to parts and copies of one function, in one build and in two.
#include "report/analysis/profiles/function_identity.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/view_fixture.h"

namespace holdfast::testing {
namespace {

TEST(FunctionIdentity, AFunctionAndItsClonesAreOneInOneBuild) {
  const std::pair<const char*, const char*> names[] = {
      {"parse_body", "parse_body"},
      {"parse_body.constprop.0", "parse_body"},
      {"parse_body.isra.0", "parse_body"},
      {"parse_body.constprop.0.isra.1.cold", "parse_body"},
      {"parse_body.part.12.cold.3", "parse_body"},
      {"parse_body.cold.0", "parse_body"},  // BOLT's, as the next two
      {"parse_body.warm", "parse_body"},
      {"app::Load(int) [clone .isra.0] [clone .cold.12]", "app::Load(int)"},
      {"parse_body.llvm.8471294410", "parse_body"},
      {"parse_body.__uniq.123456789.llvm.42", "parse_body"},
      {"parse_body.lto_priv.0", "parse_body"},
      {"parse_body.avx2", "parse_body"},
      {"parse_body.arch_x86_64_v3", "parse_body"},
      {"parse_body.sse4.2", "parse_body"},
      {"parse_body.default.1", "parse_body"},
      {"app::Load(int) [clone .constprop.0] [clone .cold]", "app::Load(int)"},
      {"app::Load(int) (.part.0)", "app::Load(int)"},
      {"core::fmt::write::h0123456789abcdef", "core::fmt::write"},
      {"app[c0ffee12]::run::{closure#0}", "app::run::{closure#0}"},
      // Not the compiler's.
      {"main.cold_start", "main.cold_start"},
      {"main.Serve.func1", "main.Serve.func1"},
      {"github.com/a/b.(*T).Run", "github.com/a/b.(*T).Run"},
      {"Sum(int (&) [4])", "Sum(int (&) [4])"},
      {"app::f::hash", "app::f::hash"},
      {"main::{lambda(int)#2}::operator()(int) const", "main::{lambda(int)#2}::operator()(int) const"},
      {"libfoo.so.1!0x1234", "libfoo.so.1!0x1234"},
      {".cold", ".cold"},
      {"", ""},
  };
  for (const auto& [name, source] : names) EXPECT_EQ(SourceName(name), source) << name;
}

TEST(FunctionIdentity, NumbersDoNotCountBetweenTwoBuilds) {
  const std::pair<const char*, const char*> pairs[] = {
      {"main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#2}::operator()(int) const"},
      {"main()::{lambda(int)#1}::operator()", "main()::{lambda load.cc:7}::operator()"},
      {"main::$_0::operator()(int) const", "main::$_12::operator()(int) const"},
      {"app::f()::$_0::operator()(int) const", "app::f()::{lambda(int)#3}::operator()(int) const"},
      {"void each<work()::$_1>(work()::$_1)", "void each<work()::{lambda(int)#2}>(work()::{lambda(int)#2})"},
      {"main::'lambda'(int)::operator()(int) const", "main::'lambda1'(int)::operator()(int) const"},
      {"app::run::{{closure}}::h0123456789abcdef", "app::run::{{closure}}::hfedcba9876543210"},
      {"app[c0ffee]::run::{closure#1}", "app[bead]::run::{closure#0}"},
      {"<app[1]::T as app[1]::Trait>::run", "<app[2]::T as app[2]::Trait>::run"},
      {"app::{unnamed type#1}::f()", "app::{unnamed type#3}::f()"},
      {"app::_GLOBAL__N__1234_5_a_cc::f()", "app::_GLOBAL__N__9876_5_a_cc::f()"},
      {"main._omp_fn.0", "main._omp_fn.3"},
      {"helper.4711", "helper.12"},
      {"std::__cxx11::f()", "std::f()"},
      {"[unknown]!0x7f0000001234", "[unknown]!0x7f0000005678"},
  };
  for (const auto& [base, head] : pairs) EXPECT_EQ(NameAcrossBuilds(base), NameAcrossBuilds(head)) << base;
  EXPECT_NE(NameAcrossBuilds("f(int)"), NameAcrossBuilds("f(long)"));
  EXPECT_NE(NameAcrossBuilds("a.so!0x1234"), NameAcrossBuilds("a.so!0x1235"));
}

TEST(FunctionIdentity, ANameWithoutParametersIsWhatDebugInformationSays) {
  for (const auto& [name, plain] : std::initializer_list<std::pair<const char*, const char*>>{
           {"app::f(int) const", "app::f"},
           {"void app::f<int (*)(char)>(int)", "app::f<int (*)(char)>"},
           {"(anonymous namespace)::f(int)", "(anonymous namespace)::f"},
           {"app::T::operator()(int) const", "app::T::operator()"},
           {"main::{lambda(int)#1}::operator()(int)", "main::{lambda(int)#1}::operator()"},
           {"f", "f"}}) {
    EXPECT_EQ(NameWithoutParameters(name), plain);
  }
}

// The name that the symbol table has is not lost.
TEST(FunctionIdentity, TheOldNameIsKeptAsTheSystemName) {
  Profile profile = StackProfile({{"main;parse.part.0", 10}, {"main;parse", 5}});
  NameFunctionsBySource(&profile);
  ASSERT_EQ(profile.functions.size(), 3u);
  EXPECT_EQ(profile.strings[profile.functions[1].name], "parse");
  EXPECT_EQ(profile.strings[profile.functions[1].system_name], "parse.part.0");
  EXPECT_EQ(profile.functions[2].system_name, 0u);
}

}  // namespace
}  // namespace holdfast::testing
