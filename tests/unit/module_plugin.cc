// A library to load and unload, built twice: two libraries of the same size with different contents.
extern "C" {
int plugin_number = PLUGIN_NUMBER;

void PluginCall(void (*callback)(void*), void* argument) {
  callback(argument);
  plugin_number += PLUGIN_NUMBER;
}
}

#ifdef PLUGIN_INCOMPLETE
// Defined nowhere: it cannot be loaded.
extern "C" int HoldfastMissingFunction();
extern "C" int CallsMissingFunction() { return HoldfastMissingFunction(); }
#endif
