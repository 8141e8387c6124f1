// What the tool for systems without glibc has besides the packaged tool's objects: it is linked statically against Debian's
// glibc. Such a program could load libraries, those of another glibc on another system, with which it crashes. Therefore it
// loads none: names of hosts, users and services come from the code that is linked in, whatever /etc/nsswitch.conf says.
// libcurl is linked in (scripts/static-libraries), and found as if it had been loaded.
#include <curl/curl.h>
#include <nss.h>

#include <cstring>
#include <initializer_list>

namespace {

constexpr char kCurl[] = "libcurl.so.4";

struct Linked {
  const char* name;
  void* function;
};
template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}
const Linked kFunctionsOfCurl[] = {
    {"curl_global_init", Address(curl_global_init)},   {"curl_easy_init", Address(curl_easy_init)},
    {"curl_easy_cleanup", Address(curl_easy_cleanup)}, {"curl_easy_reset", Address(curl_easy_reset)},
    {"curl_easy_setopt", Address(curl_easy_setopt)},   {"curl_easy_perform", Address(curl_easy_perform)},
    {"curl_easy_getinfo", Address(curl_easy_getinfo)}, {"curl_easy_strerror", Address(curl_easy_strerror)},
    {"curl_slist_append", Address(curl_slist_append)}, {"curl_slist_free_all", Address(curl_slist_free_all)},
};

// nss_files and nss_dns are in libc.a since glibc 2.34.
__attribute__((constructor)) void LookUpWithoutModules() {
  __nss_configure_lookup("hosts", "files dns");
  for (const char* database : {"passwd", "group", "services", "protocols", "networks"})
    __nss_configure_lookup(database, "files");
}

}  // namespace

extern "C" {

// In place of glibc's.
void* dlopen(const char* name, int) {
  return name != nullptr && !strcmp(name, kCurl) ? const_cast<char*>(kCurl) : nullptr;
}
void* dlsym(void* library, const char* name) {
  if (library != kCurl) return nullptr;
  for (const Linked& linked : kFunctionsOfCurl) {
    if (!strcmp(linked.name, name)) return linked.function;
  }
  return nullptr;
}

// Each of glibc's own ways to load a library calls _dl_open; the linker leads the call here (--wrap). Null: not found.
void* __wrap__dl_open(const char*, int, const void*, long, int, char**, char**) { return nullptr; }

}  // extern "C"
