#include <pwd.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/builder/output_folder.h"
#include "report/builder/process_exporter.h"
#include "report/cmd/commands.h"
#include "report/daemon/exporter_lock.h"
#include "report/daemon/served_users.h"
#include "report/daemon/stalled_exporter.h"
#include "report/names/symbolize/module_symbolizer.h"
#include "report/observe/table/folder_owner.h"
#include "report/observe/table/table_folder.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

struct CollectOptions {
  std::string from;  // DIR
  std::string out;   // -o; "": the output folder of each table
  std::vector<std::string> tables;
  std::vector<std::string> users;
  bool live = false, discard = false;
};

// Collects tables and counts the results.
class Collection {
 public:
  explicit Collection(const CollectOptions& options)
      : options_(options),
        folder_(std::filesystem::absolute(options.from).lexically_normal().string()),
        id_(FolderIdOf(folder_)) {}

  int Run() {
    for (const std::string& text : options_.users) {
      const absl::StatusOr<uid_t> user = UserOf(text);
      if (!user.ok()) {
        Say(std::string(user.status().message()));
        return kCouldNot;
      }
      users_.insert(*user);
    }
    for (const std::string& path : options_.tables) {
      const absl::StatusOr<FileDescriptor> folder = OpenFolder(path);
      if (!folder.ok()) {
        Fail(fmt::format("{}: cannot be read", path), folder.status(), "Name the folder of the tables with --tables.");
        continue;
      }
      CollectFrom(path, *folder, false);
    }
    // DIR may itself be a folder of tables.
    if (const absl::StatusOr<FileDescriptor> folder = OpenFolder(folder_); folder.ok())
      CollectFrom(folder_, *folder, true);
    std::error_code error;
    if (!found_ && !failed_ && !std::filesystem::is_directory(folder_, error)) {
      Say(fmt::format("{}: no such folder, and no table names it. holdfast ls shows the folders.", options_.from));
      return kCouldNot;
    }
    Report();
    return Finished(failed_ ? kCouldNot : kFine);
  }

 private:
  // `text`: a name ("www-data") or a number ("33").
  static absl::StatusOr<uid_t> UserOf(const std::string& text) {
    if (geteuid() != 0)
      return absl::PermissionDeniedError(
          "--user: only root can read other users' tables. Run holdfast collect as that user, or as root.");
    uid_t user = 0;
    if (absl::SimpleAtoi(text, &user)) return user;
    const passwd* entry = getpwnam(text.c_str());
    if (entry == nullptr)
      return absl::NotFoundError(
          fmt::format("--user {}: no such user. Give a user's name or number.", Printable(text)));
    return entry->pw_uid;
  }

  static std::string Count(int number, const char* one, const char* many) {
    return fmt::format("{} {}", number, number == 1 ? one : many);
  }

  void Fail(const std::string& what, const absl::Status& status, const char* next) {
    failed_ = true;
    fmt::print(stderr, "holdfast: {} ({}). {}\n", Printable(what), Printable(std::string(status.message())), next);
  }

  // Whether DIR is the output folder of the table. The same path may name another folder in another container.
  bool IsFor(const TableFile& table) const {
    if (table.out_id().known() && id_.known() && table.out_id() == id_) return true;
    std::error_code error;
    const bool same_path = std::filesystem::path(table.out()).lexically_normal() == folder_ ||
                           (!table.out_id().known() && std::filesystem::equivalent(table.out(), folder_, error));
    // The path is equal but the device or inode differs: if the program ran in our namespace, the folder was deleted
    // and created again.
    return same_path && (!table.out_id().known() || !id_.known() || table.owner().IsOfOurNamespace());
  }

  static bool IsVouchedFor(const std::string& path, const TableFile& table, uid_t user) {
    return HasMark(path, table.out(), table.OutIdHere(), user) ||
           (!table.out_id().known() && HasMark(path, table.out(), FolderId{}, user));
  }

  void CollectFrom(const std::string& path, const FileDescriptor& folder, bool every_out) {
    std::map<std::tuple<std::string, uint64_t, uint64_t>, std::vector<TableFile>> by_out;
    const auto look = [&](uid_t user) {
      ShowSmallTables(folder, user);
      for (const std::string& name : ListTableNames(folder, kTableSuffix, user)) {
        absl::StatusOr<TableFile> table = TableFile::Open(folder, name, user);
        if (table.ok()) {
          if (!every_out && !IsFor(*table)) continue;
          found_ = true;
          if (user != geteuid() && !users_.contains(user) && !IsVouchedFor(path, *table, user)) {
            ++not_taken_[user];
          } else {
            const FolderId id = table->OutIdHere();
            by_out[{table->out(), id.device, id.inode}].push_back(*std::move(table));
          }
        } else if (every_out && user == geteuid() && !absl::IsNotFound(table.status())) {
          Fail(path + "/" + name, table.status(), "It was left in place.");
        }
      }
    };
    look(geteuid());
    for (const uid_t user : OtherUsersOfTables(folder)) look(user);
    for (auto& [place, tables] : by_out) {
      const std::string& out = std::get<0>(place);
      const FolderId id = {std::get<1>(place), std::get<2>(place)};
      ExporterLock lock(path, out, id);
      const bool taken = lock.Take();
      // With a mark of root, root's exporter or root's `collect` takes the tables.
      if (!taken && (!lock.Barred() || HasMark(path, out, id, geteuid()))) {
        served_ += static_cast<int>(tables.size());
        if (stalled_exporter_.empty()) stalled_exporter_ = WhyExporterIsStopped(path, out, id);
        continue;
      }
      if (!taken) {
        Say(fmt::format(
            "{}: belongs to another user and keeps exporters away. Remove it, or keep tables in a folder of your own (--tables).",
            Printable(lock.path())));
      }
      std::set<uid_t> others;
      for (TableFile& table : tables) {
        if (const uid_t user = table.user(); user != geteuid()) others.insert(user);
        CollectTable(folder, std::move(table));
      }
      ForgetUsers(path, folder, out, id, others);
    }
  }

  // Removes the marks of those `users` that have no tables left for this output folder.
  void ForgetUsers(const std::string& path, const FileDescriptor& folder, const std::string& out, FolderId id,
                   const std::set<uid_t>& users) {
    for (const uid_t user : users) {
      bool any = false;
      for (const std::string& name : ListTableNames(folder, kTableSuffix, user)) {
        const absl::StatusOr<TableFile> table = TableFile::Open(folder, name, user);
        any = any || !table.ok() || (table->out() == out && table->OutIdHere() == id);
      }
      if (!any) RemoveMarks(path, out, id, user);
    }
  }

  void CollectTable(const FileDescriptor& folder, TableFile table) {
    const Liveness liveness = table.liveness();
    if (liveness != Liveness::kDead && !options_.live) {
      ++(liveness == Liveness::kAlive ? live_ : unknown_);
      return;
    }
    const std::string name = table.name();
    const std::string what = fmt::format("{} (process {}, table {})", table.program(), table.owner().pid, name);
    if (options_.discard) {
      if (liveness == Liveness::kDead && unlinkat(folder.get(), name.c_str(), 0) == 0) ++discarded_;
      return;
    }
    const std::string& place = options_.out.empty() ? table.out() : options_.out;
    auto [output, is_new] = outputs_.try_emplace(place, absl::NotFoundError(""));
    // Create the output folder only when there is a profile to write.
    if (is_new) output->second = OutputFolder::Open(place);
    if (!output->second.ok()) {
      Fail(what, output->second.status(), kLeft);
      return;
    }
    ProcessExporter exporter(std::move(table));
    const auto written = exporter.Export(*output->second, symbolizer_, Deadline::Never());
    if (!written.ok()) {
      Fail(what, written.status(), kLeft);
      return;
    }
    ++processes_;
    for (const ProfileName& file : *written) {
      ++files_;
      std::cout << output->first << "/" << file.ToString() << "\n";
    }
    if (liveness == Liveness::kDead) unlinkat(folder.get(), name.c_str(), 0);
  }

  void Report() const {
    std::string line =
        options_.discard ? fmt::format("holdfast: {}: deleted {} of exited processes", options_.from,
                                       Count(discarded_, "table", "tables"))
                         : fmt::format("holdfast: {}: {} from {}", options_.out.empty() ? options_.from : options_.out,
                                       Count(files_, "profile", "profiles"), Count(processes_, "process", "processes"));
    const char* hint = options_.discard ? "" : " (--live includes those)";
    if (live_ > 0) line += fmt::format("; {} still running{}", live_, hint);
    if (unknown_ > 0) line += fmt::format("; {} that may or may not be running{}", unknown_, hint);
    for (const auto& [user, count] : not_taken_) {
      line +=
          fmt::format("; skipped {} of {}: no proof that a program of root became that user (--user {} collects {})",
                      Count(count, "table", "tables"), Printable(UserName(user)), user, count == 1 ? "it" : "them");
    }
    if (served_ > 0 && !stalled_exporter_.empty()) {
      line += fmt::format("; skipped {}: {}", Count(served_, "table", "tables"), stalled_exporter_);
    } else if (served_ > 0) {
      line += fmt::format("; left {} to the running exporter", Count(served_, "table", "tables"));
    }
    fmt::print(stderr, "{}.\n", line);
  }

  const CollectOptions& options_;
  static constexpr char kLeft[] = "The table was left in place: -o writes elsewhere, --discard deletes it.";

  std::string folder_;  // DIR, absolute
  FolderId id_;
  std::map<std::string, absl::StatusOr<OutputFolder>> outputs_;
  ModuleSymbolizer symbolizer_;
  std::set<uid_t> users_;           // users named by --user: their tables need no mark
  std::map<uid_t, int> not_taken_;  // tables of other users for the same output folder, per user
  int files_ = 0, processes_ = 0, discarded_ = 0, live_ = 0, unknown_ = 0, served_ = 0;
  std::string stalled_exporter_;         // why the exporter that owns the remaining tables does not respond
  bool found_ = false, failed_ = false;  // found_: any table of DIR
};

}  // namespace

void AddCollectCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<CollectOptions>();
  CLI::App* command = app.add_subcommand("collect", "Write the profiles of exited programs that no exporter served");
  command->footer(
      "A program that runs with HOLDFAST_EXPORTER=no, or that is killed together with its exporter, leaves its table in\n"
      "memory. This command turns such tables into profiles in DIR (the program's HOLDFAST_OUT), prints the names of the\n"
      "files, and removes the tables. DIR may also be a folder of tables: then all of them are collected, and each\n"
      "program's profiles go to its own output folder.\n"
      "\n"
      "  HOLDFAST_EXPORTER=no HOLDFAST_OUT=/tmp/p LD_PRELOAD=…/libholdfast.so ./server\n"
      "  holdfast collect /tmp/p\n"
      "  holdfast collect -o here /full/disk       writes elsewhere if that disk is full\n"
      "  holdfast collect --discard /tmp/p         frees the memory without writing profiles");
  command->add_option("-o,--out", options->out, "Write to DIR instead of the program's output folder")
      ->type_name("DIR");
  command->add_option("DIR", options->from, "The programs' output folder, or a folder of tables")->required();
  command->add_option("--tables", options->tables,
                      "Folder of the table files [default: /dev/shm and $XDG_RUNTIME_DIR]");
  command
      ->add_option(
          "--user", options->users,
          "As root, also collect tables of this user that name DIR (repeatable; tables of root's programs that\n"
          "changed to another user are collected anyway)")
      ->type_name("USER")
      ->allow_extra_args(false);
  command->add_flag("--live", options->live, "Also write the profiles of running programs (their tables stay)");
  command->add_flag("--discard", options->discard, "Delete the tables of exited programs without writing profiles")
      ->excludes("--live")
      ->excludes("--out");
  command->callback([options, invocation] {
    if (!options->out.empty()) options->out = std::filesystem::absolute(options->out).lexically_normal().string();
    if (options->tables.empty()) {
      for (const std::string& folder : DefaultTableFolders()) {
        if (std::filesystem::is_directory(folder)) options->tables.push_back(folder);
      }
    }
    invocation->exit_code = Collection(*options).Run();
  });
}

}  // namespace holdfast
