#include "report/pprof/object_names.h"

#include <algorithm>

#include "fmt/format.h"
#include "report/base/base_name.h"

namespace holdfast {
namespace {

constexpr std::string_view kProgram = "program: ", kExecutable = "executable: ", kCommand = "command: ",
                           kObject = "object: ", kIsCalled = " is called ";

}  // namespace

// The comment `program` of each process comes first; its other comments may be anywhere after it (comment_records.h).
ObjectNames::ObjectNames(const Profile& profile) {
  std::string_view program, executable, command;
  const auto finish = [&] {
    const bool is_called_so = !command.empty() && BaseName(command.substr(0, command.find(' '))) == program;
    if (is_called_so && !program.empty() && !executable.empty() && program != executable) Add(executable, program);
    program = executable = command = {};
  };
  for (const StringId comment : profile.comments) {
    const std::string_view text = profile.strings[comment];
    if (text.starts_with(kProgram)) {
      finish();
      program = text.substr(kProgram.size());
    }
    if (text.starts_with(kExecutable)) executable = BaseName(text.substr(kExecutable.size()));
    if (text.starts_with(kCommand)) command = text.substr(kCommand.size());
    if (const size_t called = text.find(kIsCalled); text.starts_with(kObject) && called != std::string_view::npos)
      Add(text.substr(kObject.size(), called - kObject.size()), text.substr(called + kIsCalled.size()));
  }
  finish();
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
  for (const auto& [file, program] : called_)
    profile->AddComment(fmt::format("{}{}{}{}", kObject, file, kIsCalled, program));
}

}  // namespace holdfast
