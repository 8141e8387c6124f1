// A plugin in C++ for a host in C (throws_in_plugin.c), which has no C++ runtime of its own.
#include <stdexcept>

struct PluginFault : std::logic_error {
  using std::logic_error::logic_error;
};

extern "C" {
__attribute__((noinline, noclone)) void plugin_throws() { throw PluginFault("no"); }
__attribute__((noinline, noclone)) void plugin_throws_on() {
  try {
    plugin_throws();
  } catch (...) {
    throw;
  }
}
int plugin_catches(int times) {
  int caught = 0;
  for (int i = 0; i < times; ++i) {
    try {
      plugin_throws_on();
    } catch (const PluginFault&) {
      ++caught;
    }
  }
  return caught;
}
}
