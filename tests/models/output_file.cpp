#include "multihead/output_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <future>
#include <map>

#include "models/files.hpp"
#include "multihead/safetensors.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> bytes_of(const TemporaryFolder& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    files[entry.path()] = entry.is_regular_file() ? read_bytes(entry.path()) : "";
  }
  return files;
}

void write_whole(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
}

TEST(OutputFile, AppearsWhenItIsFinished) {
  const TemporaryFolder folder;
  folder.write("x", "old");
  {
    OutputFile file(folder / "x");
    EXPECT_EQ(bytes_of(folder).size(), 1u) << "nothing is made before the first write";
    file.write("ne");
    file.write("w");
    EXPECT_EQ(read_bytes(folder / "x"), "old");
    EXPECT_TRUE(fs::exists(file.temporary()));
    file.finish();
  }
  EXPECT_EQ(bytes_of(folder), (std::map<std::string, std::string>{{folder / "x", "new"}}));
}

TEST(OutputFile, LeavesTheOldBytesUnlessFinished) {
  const TemporaryFolder folder;
  folder.write("x", "old");
  const auto before = bytes_of(folder);
  { OutputFile(folder / "x").write("new"); }
  EXPECT_EQ(bytes_of(folder), before);
}

TEST(OutputFile, LeavesTheOldBytesWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  for (const std::string name : {"x", "y"}) {
    if (name == "x") folder.write("x", "old");
    const auto before = bytes_of(folder);
    const std::string text(100'000, 'n');
    EXPECT_EQ(error_under_limit<WriteError>(50'000, [&] { write_whole(folder / name, text); }),
              "OutputFile: the file must be writable, got error=File too large (\"" + (folder / name).string() + "\")");
    EXPECT_EQ(bytes_of(folder), before);
  }
}

TEST(OutputFile, SafetensorsLeaveTheOldBytesAfterAnyFailure) {
  const TemporaryFolder folder;
  folder.write("w", "old");
  fs::create_directory(folder / "folder");
  const auto before = bytes_of(folder);
  const Tensor<float, 1> x({20'000});
  const TensorToSave saved[] = {tensor_to_save("x", x.view())};
  const auto error = [&](rlim_t limit, const std::string& name) {
    return error_under_limit<CheckpointError>(limit, [&] { save_safetensors(folder / name, saved); });
  };
  const auto expected = [&](const std::string& reason, const std::string& name) {
    return "save_safetensors: the file must be writable, got error=" + reason + " (\"" + (folder / name).string() +
           "\")";
  };
  for (const rlim_t limit : {0, 4, 40, 50'000}) EXPECT_EQ(error(limit, "w"), expected("File too large", "w"));
  EXPECT_EQ(error(RLIM_INFINITY, "folder"), expected("Is a directory", "folder"));
  EXPECT_EQ(error(RLIM_INFINITY, "none/w"), expected("No such file or directory", "none/w"));
  EXPECT_EQ(error(RLIM_INFINITY, "w/w"), expected("Not a directory", "w/w"));
  EXPECT_EQ(bytes_of(folder), before);
}

TEST(OutputFile, KeepsThePermissionsOfAFile) {
  const TemporaryFolder folder;
  for (const mode_t mode : {0600, 0644, 0664, 0755}) {
    folder.write("x", "old");
    ASSERT_EQ(::chmod((folder / "x").c_str(), mode), 0);
    OutputFile file(folder / "x");
    file.write("new");
    struct stat status {};
    ASSERT_EQ(::stat(file.temporary().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode) << "before it has its name";
    file.finish();
    ASSERT_EQ(::stat((folder / "x").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode);
  }
}

TEST(OutputFile, OtherHardLinksKeepTheOldContent) {
  const TemporaryFolder folder;
  folder.write("x", "old");
  fs::create_hard_link(folder / "x", folder / "hard");
  OutputFile file(folder / "x");
  file.write("new");
  file.finish();
  EXPECT_EQ(read_bytes(folder / "x"), "new");
  EXPECT_EQ(read_bytes(folder / "hard"), "old");
}

TEST(OutputFile, FollowsLinksDanglingOnesToo) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "far");
  folder.write("far/old", "old");
  fs::create_symlink("far/old", folder / "existing");
  fs::create_symlink("far/new", folder / "dangling");
  fs::create_symlink("dangling", folder / "twice");
  write_whole(folder / "existing", "1");
  write_whole(folder / "twice", "2");
  EXPECT_EQ(read_bytes(folder / "far/old"), "1");
  EXPECT_EQ(read_bytes(folder / "far/new"), "2");
  for (const char* link : {"existing", "dangling", "twice"}) EXPECT_TRUE(fs::is_symlink(folder / link)) << link;
  EXPECT_EQ(bytes_of(folder).size(), 6u);

  fs::create_symlink("circle", folder / "circle");
  EXPECT_THROW(OutputFile(folder / "circle"), WriteError);
}

TEST(OutputFile, WritesIntoPipesAndDescriptors) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto reader = std::async(std::launch::async, [&] { return read_bytes(pipe); });
  write_whole(pipe, std::string(300'000, 'p'));
  EXPECT_EQ(reader.get(), std::string(300'000, 'p'));
  EXPECT_TRUE(fs::is_fifo(pipe));

  const fs::path path = folder.write("x", "");
  const int descriptor = ::open(path.c_str(), O_WRONLY);
  for (const char* name : {"/dev/fd/", "/proc/self/fd/"}) write_whole(name + std::to_string(descriptor), "text");
  ::close(descriptor);
  EXPECT_EQ(read_bytes(path), "texttext") << "the position of the descriptor is shared";
  EXPECT_THROW(OutputFile("/dev/fd/" + std::to_string(descriptor)), WriteError) << "it is closed";
  write_whole("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(bytes_of(folder).size(), 2u);
}

TEST(OutputFile, KnowsTheSameFileByAnyName) {
  const TemporaryFolder folder;
  folder.write("x", "old");
  fs::create_directory(folder / "far");
  fs::create_symlink("x", folder / "link");
  fs::create_symlink("none", folder / "dangling");
  fs::create_hard_link(folder / "x", folder / "hard");
  const OutputFile x(folder / "x"), none(folder / "none"), null("/dev/null");
  for (const char* name : {"x", "link", "hard", "far/../x", "./x"}) EXPECT_TRUE(x.is_same(folder / name)) << name;
  for (const char* name : {"none", "dangling", "far/../none"}) EXPECT_TRUE(none.is_same(folder / name)) << name;
  EXPECT_FALSE(x.is_same(folder / "none"));
  EXPECT_FALSE(none.is_same(folder / "x"));
  EXPECT_FALSE(none.is_same(folder / "far/none"));
  EXPECT_FALSE(null.is_same("/dev/null")) << "two outputs may both be thrown away";
}

TEST(OutputFile, SaysBeforeTheWorkThatAFileCannotBeWritten) {
  const TemporaryFolder folder;
  folder.write("read-only", "old");
  ::chmod((folder / "read-only").c_str(), 0444);
  fs::create_directory(folder / "locked");
  folder.write("locked/x", "old");
  ::chmod((folder / "locked").c_str(), 0555);
  ::chmod(folder.path().c_str(), 0777);
  const auto before = bytes_of(folder);
  const pid_t child = ::fork();  // root may write anywhere: try as somebody else
  if (child == 0) {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(1);
    int refused = 0;
    for (const char* name : {"read-only", "locked/x", "locked/new", "none/x", ""}) {
      try {
        OutputFile file(name[0] != '\0' ? folder / name : fs::path());
      } catch (const WriteError&) {
        ++refused;
      }
    }
    ::_exit(refused == 5 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(bytes_of(folder), before);
  ::chmod((folder / "locked").c_str(), 0755);
}

}  // namespace
}  // namespace multihead
