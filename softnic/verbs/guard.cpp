#include "guard.h"

#include "softnic/cm/rdma_ids.h"
#include "softnic/nic/nic_error.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>

namespace sidelatch::softnic::verbs {

namespace {

int errno_for(nic::NicError::Kind kind) {
  switch (kind) {
    case nic::NicError::Kind::invalid:
      return EINVAL;
    case nic::NicError::Kind::full:
      return ENOMEM;
    case nic::NicError::Kind::busy:
      return EBUSY;
  }
  return EINVAL;
}

}  // namespace

void refuse(int error, const std::string& what) { throw VerbsError(error, what); }

void complain(const std::string& sentence) noexcept {
  // A mutex would stay locked in a child that another thread forks meanwhile.
  static std::atomic<std::size_t> last = 0;
  const std::size_t hash = std::hash<std::string>{}(sentence);
  if (last.exchange(hash, std::memory_order_relaxed) != hash) {
    static_cast<void>(std::fprintf(stderr, "sidelatch softnic: %s\n", sentence.c_str()));
  }
}

int explained(int error, std::string_view why) noexcept {
  if (std::getenv("SIDELATCH_SOFTNIC_EXPLAIN") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    try {
      complain(fmt::format("errno {}: {}", error, why));
    } catch (...) {  // not even memory for this
    }
  }
  return error;
}

int error_of_exception() noexcept {
  try {
    throw;
  } catch (const nic::NicError& error) {
    return explained(errno_for(error.kind()), error.what());
  } catch (const QuietError& error) {
    return error.error();
  } catch (const VerbsError& error) {
    return explained(error.error(), error.what());
  } catch (const cm::IdError& error) {
    return explained(error.error(), error.what());
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::exception& error) {
    complain(error.what());
    return EIO;
  } catch (...) {
    return EIO;
  }
}

}  // namespace sidelatch::softnic::verbs
