// The name that people use for an object: the name of the file or, for the main program, the name with which it was started.
// Debian's /usr/bin/redis-server is a link to redis-check-rdb. The kernel maps redis-check-rdb, and mappings show that
// name.
//
// The name comes from the record of the process, if its command begins with the program's name. (For a script, the
// program is the script and the executable is the interpreter.) A sum of profiles has a record for each object. Any
// thread.
#ifndef HOLDFAST_REPORT_PROFILE_OBJECT_NAMES_H_
#define HOLDFAST_REPORT_PROFILE_OBJECT_NAMES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/profile/profile.h"

namespace holdfast {

class ObjectNames {
 public:
  ObjectNames() = default;
  explicit ObjectNames(const Profile& profile);

  // Returns the name for `path`, the path of a mapping.
  std::string_view Of(std::string_view path) const;

  // Writes the names into `profile`, a sum of others.
  void AddTo(Profile* profile) const;

 private:
  void Add(std::string_view file, std::string_view program);

  std::vector<std::pair<std::string, std::string>> called_;  // name of the file, name of the program
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_OBJECT_NAMES_H_
