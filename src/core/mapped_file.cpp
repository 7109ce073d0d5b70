#include "core/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/file_error.hpp"

namespace multihead {

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view function) {
  // Non-blocking, so that a pipe in the place of a file is refused and not waited for.
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
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace multihead
