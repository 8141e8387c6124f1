#include "report/profiles/object_names.h"

#include <algorithm>

#include "fmt/format.h"
#include "report/base/base_name.h"

namespace holdfast {
namespace {

constexpr std::string_view kProgram = "program: ", kExecutable = "executable: ", kCommand = "command: ";

}  // namespace

ObjectNames::ObjectNames(const Profile& profile) {
  std::string_view program, executable;
  for (const StringId comment : profile.comments) {
    const std::string_view text = profile.strings[comment];
    if (text.starts_with(kProgram)) program = text.substr(kProgram.size());
    if (text.starts_with(kExecutable)) executable = BaseName(text.substr(kExecutable.size()));
    if (!text.starts_with(kCommand)) continue;
    const std::string_view command = text.substr(kCommand.size());
    const bool is_called_so = BaseName(command.substr(0, command.find(' '))) == program;
    if (!is_called_so || program.empty() || executable.empty() || program == executable) continue;
    std::pair<std::string, std::string> called(executable, program);
    if (std::find(called_.begin(), called_.end(), called) == called_.end()) called_.push_back(std::move(called));
  }
}

std::string_view ObjectNames::Of(std::string_view path) const {
  const std::string_view name = BaseName(path);
  std::string_view answer = name;
  for (const auto& [file, program] : called_) {
    if (file != name) continue;
    if (answer != name) return name;  // as two programs, which one is not known
    answer = program;
  }
  return answer;
}

void ObjectNames::AddTo(Profile* profile) const {
  for (const auto& [file, program] : called_) {
    profile->AddComment(fmt::format("{}{}", kProgram, program));
    profile->AddComment(fmt::format("{}{}", kExecutable, file));
    profile->AddComment(fmt::format("{}{}", kCommand, program));
  }
}

}  // namespace holdfast
