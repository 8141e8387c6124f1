// C++ plugins of a C program: their new and throw reach their own runtime without the dynamic linker, however many
// plugins there are.
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class CxxPlugins : public Profiled {
 protected:
  Command Loads(std::vector<std::string> arguments, const Options& options = {}) const {
    arguments.insert(arguments.begin(), "loads_cxx_plugins");
    Command command = CommandFor(Launch::kPreload, arguments, options);
    command.timeout_seconds = 20;
    return command;
  }
  static std::string Plugin() { return ProgramPath("plugin_of_c_program.so"); }
  static std::string StaticPlugin() { return ProgramPath("plugin_of_c_program_static.so"); }
};

// The loader's lock is held until the first calls of new and the first throws of a plugin are over.
TEST_F(CxxPlugins, FirstNewAndThrowDoNotWaitForAConstructor) {
  const std::string waits = ProgramPath("waits_in_constructor.so");
  for (const bool enabled : {true, false}) {
    for (const auto& [plugin, other] : {std::pair(Plugin(), StaticPlugin()), std::pair(StaticPlugin(), Plugin())}) {
      Command command = Loads({"constructor", waits, plugin, other}, {{"heap-interval", "1"}});
      if (!enabled) command.env["HOLDFAST_ENABLE"] = "0";
      const RunResult r = RunAndSettle(command);
      EXPECT_TRUE(r.exited(0)) << plugin << (enabled ? "" : ", not enabled: ") << r.Describe();
      EXPECT_EQ(r.out, "thrown 10\n");
    }
  }
}

// Beyond what there is room for at first, too.
TEST_F(CxxPlugins, ManyCallNothingOfTheLoader) {
  for (const bool enabled : {true, false}) {
    Command command = Loads({"many", "150", Plugin(), folder()}, {{"heap-interval", "1"}});
    if (!enabled) command.env["HOLDFAST_ENABLE"] = "0";
    command.env["LD_PRELOAD"] = Library() + ":" + ProgramPath("counting_loader.so");
    const RunResult r = RunAndSettle(command);
    EXPECT_EQ(r.out, "thrown 4500, calls 0\n") << (enabled ? "" : "not enabled: ") << r.Describe();
  }
}

// A search takes 10 ns, more than the call itself.
TEST_F(CxxPlugins, LoadedByRtldGlobalOneSearchesForItsModuleOnce) {
  Command command = Loads({"global", "100000", Plugin(), "ignored"}, {});
  command.env["LD_PRELOAD"] = Library() + ":" + ProgramPath("counting_loader.so");
  const RunResult r = RunAndSettle(command);
  ASSERT_EQ(r.out.find("searches "), 0u) << r.Describe();
  const int searches = std::stoi(r.out.substr(9));
  EXPECT_GT(searches, 0);
  EXPECT_LT(searches, 200) << "some are of samples";
}

}  // namespace
}  // namespace holdfast::testing
