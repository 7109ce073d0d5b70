#include "core/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/file_error.hpp"

namespace multihead {
namespace {

// Whether the file is a Git LFS pointer, which stands in for a large file that was not downloaded.
void refuse_lfs_pointer(std::span<const std::byte> bytes, const std::filesystem::path& path,
                        std::string_view function) {
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
  const bool is_pointer =
      bytes.size() >= kPointer.size() && std::memcmp(bytes.data(), kPointer.data(), kPointer.size()) == 0;
  require_file(!is_pointer, path, function, "the file must hold its content, got a Git LFS pointer", {},
               "run git lfs pull in its folder");
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view function) {
  // Non-blocking, so that a pipe is refused and does not block.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require_file(descriptor >= 0, path, function, "the file must be readable", {{"error", std::strerror(errno)}});
  struct Close {
    int descriptor;
    ~Close() { ::close(descriptor); }
  } const close{descriptor};

  struct stat status {};
  require_file(::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode), path, function,
               "the path must be a regular file");
  if (status.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  require_file(address != MAP_FAILED, path, function, "the file must fit in the address space",
               {{"file_bytes", size}, {"error", std::strerror(errno)}});
  bytes_ = {static_cast<const std::byte*>(address), size};
  try {
    refuse_lfs_pointer(bytes_, path, function);
  } catch (...) {
    ::munmap(address, size);
    throw;
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace multihead
