// What people call an object: the file's name, but the main program as it was started. Debian's /usr/bin/redis-server is a
// link to redis-check-rdb, which is what the kernel maps and what a mapping says.
//
// A profile says it in its comments `program`, `executable` and `command`, in this order: where the command begins with the
// program's name. (Of a script the program is the script, its executable the interpreter.) A sum of several says it in a record
// for each: `object: redis-check-rdb is called redis-server`. Any thread.
#ifndef HOLDFAST_REPORT_PPROF_OBJECT_NAMES_H_
#define HOLDFAST_REPORT_PPROF_OBJECT_NAMES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

class ObjectNames {
 public:
  ObjectNames() = default;
  explicit ObjectNames(const Profile& profile);

  // Of `path`, as a mapping says it.
  std::string_view Of(std::string_view path) const;

  // Says the same in `profile`, a sum of others.
  void AddTo(Profile* profile) const;

 private:
  void Add(std::string_view file, std::string_view program);

  std::vector<std::pair<std::string, std::string>> called_;  // name of the file, name of the program
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PPROF_OBJECT_NAMES_H_
