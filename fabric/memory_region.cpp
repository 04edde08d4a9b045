#include <sidelatch/fabric/memory_region.h>

#include <sidelatch/fabric/node.h>

#include <utility>

namespace sidelatch::fabric {

std::string to_string(Access access) {
  if (access == Access::local_read) {
    return "local_read";
  }
  std::string text;
  const auto add = [&](Access right, const char* name) {
    if (allows(access, right)) {
      text += text.empty() ? "" : "|";
      text += name;
    }
  };
  add(Access::local_write, "local_write");
  add(Access::remote_read, "remote_read");
  add(Access::remote_write, "remote_write");
  add(Access::remote_atomic, "remote_atomic");
  return text;
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept
    : node_(std::exchange(other.node_, nullptr)),
      data_(other.data_),
      length_(std::exchange(other.length_, 0)),
      address_(other.address_),
      access_(other.access_),
      lkey_(other.lkey_),
      rkey_(other.rkey_) {}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  if (this != &other) {
    release();
    node_ = std::exchange(other.node_, nullptr);
    data_ = other.data_;
    length_ = std::exchange(other.length_, 0);
    address_ = other.address_;
    access_ = other.access_;
    lkey_ = other.lkey_;
    rkey_ = other.rkey_;
  }
  return *this;
}

MemoryRegion::~MemoryRegion() { release(); }

void MemoryRegion::deregister() {
  if (node_ != nullptr) {
    node_->remove(lkey_, /*even_if_busy=*/false);
    node_ = nullptr;
    length_ = 0;
  }
}

void MemoryRegion::release() noexcept {
  if (node_ != nullptr) {
    node_->remove(lkey_, /*even_if_busy=*/true);
    node_ = nullptr;
    length_ = 0;
  }
}

}  // namespace sidelatch::fabric
