#include "multihead/output_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "models/checkpoint_edits.hpp"
#include "multihead/save_encoder.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::string refused(const fs::path& path) {
  return error_of<WriteError>([&] { OutputFolder folder(path); });
}

TEST(OutputFolder, AppearsCompleteOrNotAtAll) {
  const TemporaryFolder around;
  {
    OutputFolder folder(around / "new/");
    folder.write("a/b.txt", "text");
    EXPECT_FALSE(fs::exists(around / "new"));
  }
  EXPECT_EQ(names_in(around.path()), std::vector<std::string>{}) << "it was given up";
  OutputFolder folder(around / "new/");
  folder.write("a/b.txt", "text");
  folder.finish();
  EXPECT_EQ(names_in(around.path()), std::vector<std::string>{"new"});
  EXPECT_EQ(read_bytes(around / "new/a/b.txt"), "text");
}

TEST(OutputFolder, AnEmptyFolderKeepsItsPermissionsAndALinkStays) {
  const TemporaryFolder around;
  fs::create_directory(around / "empty");
  fs::permissions(around / "empty", fs::perms(0710));
  fs::create_symlink("empty", around / "link");
  OutputFolder folder(around / "link");
  folder.write("file", "text");
  folder.finish();
  EXPECT_EQ(fs::status(around / "empty").permissions(), fs::perms(0710));
  EXPECT_TRUE(fs::is_symlink(around / "link"));
  EXPECT_EQ(read_bytes(around / "empty/file"), "text");
}

TEST(OutputFolder, RefusesBeforeAnythingIsWritten) {
  const TemporaryFolder around;
  around.write("file", "text");
  fs::create_directory(around / "full");
  around.write("full/file", "text");
  const auto text = [&](const std::string& name, const std::string& reason) {
    return "OutputFile: the file must be writable, got error=" + reason + " (\"" + (around / name).string() + "\")";
  };
  EXPECT_EQ(refused(around / "full"), text("full", "Directory not empty"));
  EXPECT_EQ(refused(around / "file"), text("file", "Not a directory"));
  EXPECT_EQ(refused(around / "missing/new"), text("missing/new", "No such file or directory"));
  EXPECT_EQ(names_in(around.path()), (std::vector<std::string>{"file", "full"}));
}

TEST(OutputFolder, ADiskThatIsFullLeavesNothing) {
  const TemporaryFolder around;
  const fs::path source = golden_folder("bert"), target = around / "copy";
  const Encoder encoder = load_encoder(source);
  const std::string error = error_under_limit<WriteError>(4096, [&] { save_encoder(encoder, source, target); });
  EXPECT_EQ(error, "OutputFile: the file must be writable, got error=File too large (\"" +
                       (target / "model.safetensors").string() + "\")");
  EXPECT_EQ(names_in(around.path()), std::vector<std::string>{});
}

}  // namespace
}  // namespace multihead
