#include "multihead/output_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "io/temporary_name.hpp"

namespace multihead {
namespace fs = std::filesystem;
namespace {

constexpr int kMostLinks = 40;  // as Linux

// The target of a path after following its links.
struct Target {
  fs::path path = {};                      // absolute
  std::optional<struct stat> status = {};  // of what is there
  std::optional<int> descriptor = {};      // the path names an open descriptor of this process
  int error = 0;                           // why it has no target; the other fields are then unset

  static Target none(int error) { return {.error = error}; }
};

bool is_device(const struct stat& status) { return S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode); }

Target open_descriptor(const fs::path& path) {
  const std::string name = path.filename();
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc{} && end == name.data() + name.size();
  const int flags = is_number ? ::fcntl(number, F_GETFL) : -1;
  if (flags < 0) return Target::none(EBADF);
  Target target{.path = path, .descriptor = number};
  struct stat status;
  if (::fstat(number, &status) == 0) target.status = status;
  return target;
}

Target follow(fs::path path) {
  for (int links = 0; links < kMostLinks; ++links) {
    const fs::path name = path.filename();
    std::error_code error;
    const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : fs::path("."), error);
    if (error) return Target::none(error.value());
    if (name.empty() || name == "." || name == "..") return Target::none(path.empty() ? ENOENT : EISDIR);
    path = folder / name;
    if (folder == "/proc/" + std::to_string(::getpid()) + "/fd") return open_descriptor(path);
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0) {
      return errno == ENOENT ? Target{.path = path} : Target::none(errno);
    }
    if (!S_ISLNK(status.st_mode)) return {.path = path, .status = status};
    const fs::path link = fs::read_symlink(path, error);
    if (error) return Target::none(error.value());
    path = folder / link;
  }
  return Target::none(ELOOP);
}

// 0, or the error why the target cannot be written. A regular file is replaced, so its folder must be writable too.
int writing_error(const Target& target) {
  const auto denied = [](const fs::path& path, int mode) {
    return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) != 0 ? errno : 0;
  };
  if (target.error != 0) return target.error;
  if (target.descriptor) return (::fcntl(*target.descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY ? EBADF : 0;
  if (target.status && S_ISDIR(target.status->st_mode)) return EISDIR;
  if (target.status && S_ISSOCK(target.status->st_mode)) return ENXIO;
  if (target.status) {
    if (const int error = denied(target.path, W_OK)) return error;
    if (!S_ISREG(target.status->st_mode)) return 0;
  }
  const fs::path folder = target.path.parent_path();
  if (const int error = denied(folder, W_OK | X_OK)) return error;
  struct stat status;
  if (!target.status || ::stat(folder.c_str(), &status) != 0 || (status.st_mode & S_ISVTX) == 0) return 0;
  const uid_t user = ::geteuid();  // in a sticky folder, only an owner may replace a file
  return user == 0 || user == status.st_uid || user == target.status->st_uid ? 0 : EPERM;
}

}  // namespace

WriteError::WriteError(fs::path path, int error_number)
    : Error("OutputFile: the file must be writable, got error=" + std::string(std::strerror(error_number)) + " (\"" +
            path.string() + "\")"),
      path_(std::move(path)),
      reason_(std::strerror(error_number)) {}

OutputFile::OutputFile(const fs::path& path) : path_(path) {
  const Target target = follow(path);
  if (const int error = writing_error(target)) fail(error);
  target_ = target.path;
  given_ = target.descriptor;
  if (given_) {
    descriptor_ = *given_;
    return;
  }
  if (!target.status || S_ISREG(target.status->st_mode)) temporary_ = target_.parent_path() / temporary_name();
  if (!target.status) return;
  mode_ = target.status->st_mode & 07777;
  owner_ = target.status->st_uid;
  group_ = target.status->st_gid;
}

OutputFile::OutputFile(int descriptor, fs::path name)
    : path_(std::move(name)), given_(descriptor), descriptor_(descriptor) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0 && !given_) ::close(descriptor_);
  if (!temporary_.empty() && !complete_) ::unlink(temporary_.c_str());
}

void OutputFile::fail(int error_number) const { throw WriteError(path_, error_number); }

void OutputFile::open() {
  if (descriptor_ >= 0) return;
  if (temporary_.empty()) {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor_ < 0) fail(errno);
    return;
  }
  // The permissions are set before anything is written, so that nobody else can read a private file.
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_ ? 0600 : 0666);
  if (descriptor_ < 0) fail(errno);
  if (!mode_) return;
  if (::fchown(descriptor_, owner_, group_) != 0 && ::fchown(descriptor_, static_cast<uid_t>(-1), group_) != 0) {
    *mode_ &= ~static_cast<mode_t>(S_ISUID | S_ISGID);  // a different owner: these bits would grant other rights
  }
  if (::fchmod(descriptor_, *mode_) != 0) fail(errno);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  open();
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      pollfd waiting{.fd = descriptor_, .events = POLLOUT, .revents = 0};
      ::poll(&waiting, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      fail(written == 0 ? EIO : errno);
    }
  }
}

void OutputFile::finish() {
  open();
  if (given_) return;
  const bool cannot_sync = ::fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP && errno != ENOSYS;
  if (cannot_sync && !temporary_.empty()) fail(errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(errno);
  if (!temporary_.empty() && ::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  complete_ = true;
}

bool OutputFile::is_same(const fs::path& other) const {
  const Target there = follow(other);
  if (there.error != 0) return false;
  if (given_ && there.descriptor) return *given_ == *there.descriptor;
  struct stat status {};
  const bool exists = given_ ? ::fstat(*given_, &status) == 0 : ::stat(target_.c_str(), &status) == 0;
  if (!exists || !there.status) return !exists && !there.status && there.path == target_;
  return !is_device(status) && status.st_dev == there.status->st_dev && status.st_ino == there.status->st_ino;
}

}  // namespace multihead
