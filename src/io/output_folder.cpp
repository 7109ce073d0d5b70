#include "multihead/output_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/mapped_file.hpp"
#include "io/temporary_name.hpp"

namespace multihead {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kFunction = "OutputFolder";

// The path with links resolved; its last part need not exist.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path given = fs::absolute(path, error);
  if (error) throw WriteError(path, error.value());
  if (!given.has_filename()) given = given.parent_path();  // "smaller/"
  if (fs::exists(fs::symlink_status(given, error))) {
    const fs::path there = fs::canonical(given, error);
    if (error) throw WriteError(path, error.value());
    return there;
  }
  const fs::path around = fs::canonical(given.parent_path(), error);
  if (error) throw WriteError(path, error.value());
  return around / given.filename();
}

// Closes in any case.
class Descriptor {
 public:
  Descriptor(const fs::path& path, const fs::path& name)
      : name_(name), number_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (number_ < 0) throw WriteError(name, errno);
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  void finish() {
    const bool cannot_sync = ::fsync(number_) != 0 && errno != EINVAL && errno != ENOTSUP && errno != ENOSYS;
    if (cannot_sync) throw WriteError(name_, errno);
    if (::close(std::exchange(number_, -1)) != 0) throw WriteError(name_, errno);
  }

 private:
  fs::path name_;
  int number_;
};

}  // namespace

OutputFolder::OutputFolder(const fs::path& path) : path_(path) {
  if (path.empty()) throw WriteError(path, ENOENT);
  target_ = resolved(path);
  const fs::path around = target_.parent_path();
  if (::faccessat(AT_FDCWD, around.c_str(), W_OK | X_OK, AT_EACCESS) != 0) throw WriteError(path, errno);
  struct stat status;
  if (::lstat(target_.c_str(), &status) != 0) {
    if (errno != ENOENT) throw WriteError(path, errno);
  } else {
    if (!S_ISDIR(status.st_mode)) throw WriteError(path, ENOTDIR);
    std::error_code error;
    const bool is_empty = fs::is_empty(target_, error);
    if (error) throw WriteError(path, error.value());
    if (!is_empty) throw WriteError(path, ENOTEMPTY);
    if (target_ == fs::current_path(error)) throw WriteError(path, EBUSY);  // it would lose its name to another
    mode_ = status.st_mode & 07777;
  }
  temporary_ = around / temporary_name();
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (opened_ && !complete_) fs::remove_all(temporary_, ignored);
}

void OutputFolder::open() {
  if (opened_) return;
  if (::mkdir(temporary_.c_str(), 0777) != 0) throw WriteError(path_, errno);
  opened_ = true;
}

void OutputFolder::write(const fs::path& name, const std::function<void(OutputFile&)>& fill) {
  open();
  std::error_code error;
  if (name.has_parent_path()) fs::create_directories(temporary_ / name.parent_path(), error);
  if (error) throw WriteError(path_ / name, error.value());
  Descriptor descriptor(temporary_ / name, path_ / name);
  OutputFile file(descriptor.number(), path_ / name);
  fill(file);
  descriptor.finish();
}

void OutputFolder::write(const fs::path& name, std::string_view content) {
  write(name, [&](OutputFile& file) { file.write(content); });
}

void OutputFolder::copy(const fs::path& name, const fs::path& from) {
  const MappedFile source(from, kFunction);
  write(name, [&](OutputFile& file) { file.write(source.bytes()); });
}

void OutputFolder::finish() {
  open();
  if (mode_ && ::chmod(temporary_.c_str(), *mode_) != 0) throw WriteError(path_, errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw WriteError(path_, errno);
  complete_ = true;
}

}  // namespace multihead
