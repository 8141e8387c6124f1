#include "report/names/elf/debuginfod.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "report/base/load_library.h"

namespace holdfast {

// The documented functions of libdebuginfod.so.1 (elfutils 0.178 and newer).
struct Debuginfod::Library {
  void* (*begin)();
  void (*end)(void*);
  // A length of 0 means that the build id is text. Returns a descriptor, or -errno.
  int (*find_debuginfo)(void*, const unsigned char* build_id, int length, char** path);
};

bool Debuginfod::IsAsked() {
  const char* urls = getenv("DEBUGINFOD_URLS");
  return urls != nullptr && *urls != 0;
}

Debuginfod::~Debuginfod() {
  if (client_ != nullptr) library_->end(client_);
  delete library_;  // keep the library loaded: its HTTP client registers functions that run at thread exit
}

absl::Status Debuginfod::Load() {
  if (tried_) return load_status_;
  tried_ = true;
  const absl::StatusOr<void*> loaded =
      LoadLibrary({"libdebuginfod.so.1"}, "Debian and Ubuntu: apt install libdebuginfod1");
  if (!loaded.ok()) {
    return load_status_ =
               absl::UnavailableError(absl::StrCat("DEBUGINFOD_URLS is set, but ", loaded.status().message()));
  }
  void* const handle = *loaded;
  auto library = std::make_unique<Library>();
  library->begin = reinterpret_cast<void* (*)()>(dlsym(handle, "debuginfod_begin"));
  library->end = reinterpret_cast<void (*)(void*)>(dlsym(handle, "debuginfod_end"));
  library->find_debuginfo =
      reinterpret_cast<int (*)(void*, const unsigned char*, int, char**)>(dlsym(handle, "debuginfod_find_debuginfo"));
  if (library->begin == nullptr || library->end == nullptr || library->find_debuginfo == nullptr) {
    return load_status_ = absl::UnavailableError("libdebuginfod.so.1 is not the library that is known");
  }
  client_ = library->begin();
  if (client_ == nullptr) return load_status_ = absl::UnavailableError("libdebuginfod does not start");
  library_ = library.release();
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> Debuginfod::FindDebugFile(const std::string& build_id) {
  if (absl::Status status = Load(); !status.ok()) return status;
  const int fd =
      library_->find_debuginfo(client_, reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, nullptr);
  if (fd < 0) return absl::NotFoundError(std::string("debuginfod: ") + std::strerror(-fd));
  return FileDescriptor(fd);
}

}  // namespace holdfast
