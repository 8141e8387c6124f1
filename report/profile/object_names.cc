#include "report/profile/object_names.h"

#include <algorithm>

#include "report/base/base_name.h"
#include "report/profile/typed_records.h"

namespace holdfast {
ObjectNames::ObjectNames(const Profile& profile) {
  const record::Process& process = profile.process();
  const std::string_view command = process.command, executable = BaseName(process.executable);
  const bool is_called_so = !command.empty() && BaseName(command.substr(0, command.find(' '))) == process.program;
  if (is_called_so && !process.program.empty() && !executable.empty() && process.program != executable)
    Add(executable, process.program);
  for (const record::ObjectName& object : process.object) Add(object.file, object.called);
}

void ObjectNames::Add(std::string_view file, std::string_view program) {
  std::pair<std::string, std::string> called(file, program);
  if (std::find(called_.begin(), called_.end(), called) == called_.end()) called_.push_back(std::move(called));
}

std::string_view ObjectNames::Of(std::string_view path) const {
  const std::string_view name = BaseName(path);
  std::string_view answer = name;
  for (const auto& [file, program] : called_) {
    if (file != name) continue;
    if (answer != name) return name;  // two programs share the file: ambiguous
    answer = program;
  }
  return answer;
}

void ObjectNames::AddTo(Profile* profile) const {
  for (const auto& [file, program] : called_) {
    const record::ObjectName object = {file, program};
    std::vector<record::ObjectName>& known = profile->mutable_process()->object;
    if (std::find(known.begin(), known.end(), object) == known.end()) known.push_back(object);
  }
}

}  // namespace holdfast
