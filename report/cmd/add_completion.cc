#include <filesystem>
#include <iostream>
#include <memory>

#include "report/base/atomic_file.h"
#include "report/base/say.h"
#include "report/cmd/commands.h"
#include "report/cmd/completion.h"

namespace holdfast {

void AddCompletionCommand(CLI::App& app, Invocation* invocation) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand("completion", "Print a completion script for bash, zsh or fish");
  completion->footer(
      "  source <(holdfast completion bash)                       in ~/.bashrc\n"
      "  holdfast completion zsh > ~/.zfunc/_holdfast             a folder of $fpath\n"
      "  holdfast completion fish > ~/.config/fish/completions/holdfast.fish\n");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  completion->callback([&app, shell, invocation] {
    const auto text = CompletionFor(*shell, app);
    if (text.ok()) std::cout << *text;
    invocation->exit_code = Finished(text.ok() ? 0 : Failed(text.status(), std::cerr));
  });
}

void AddManPagesCommand(CLI::App& app, Invocation* invocation) {
  auto folder = std::make_shared<std::string>();
  CLI::App* man = app.add_subcommand("man-pages", "Write the man pages into a folder");
  man->add_option("DIR", *folder, "The folder to write to")->required();
  man->callback([&app, folder, invocation] {
    std::error_code error;
    std::filesystem::create_directories(*folder, error);
    invocation->exit_code = 0;
    for (const auto& [name, text] : ManPages(app)) {
      const auto written = WriteAtomically(*folder + "/" + name, text, std::cout);
      if (!written.ok()) invocation->exit_code = Failed(written, std::cerr);
    }
  });
}

}  // namespace holdfast
