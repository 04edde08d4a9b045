// A thread takes pages away while another one copies from and to them. Under ThreadSanitizer without atomics: it holds
// a lock of its own during them, which a fault would leave behind.
#include "softnic/nic/gone_pages.h"

#include "softnic/nic/shared_bytes.h"
#include "tests/softnic/nic/mapped_pages.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>

namespace sidelatch::softnic::nic {
namespace {

TEST(GonePagesThreaded, MayGoAndComeDuringACopy) {
  bear_gone_pages();
  const MappedPages pages(4);
  std::atomic<bool> ends = false;
  std::atomic<int> rounds = 0;
  std::thread other([&] {
    while (!ends) {
      pages.protect(PROT_NONE);
      pages.protect(PROT_READ | PROT_WRITE);
      ++rounds;
    }
  });
  std::array<std::byte, 4 * kPageBytes> own{};
  int gone = 0;
  int done = 0;
  while (gone < 100 || done < 100) {
    const std::byte* const missing =
        (gone + done) % 2 == 0 ? load_shared(own, pages.data()) : store_shared(pages.data(), own);
    ++(missing == nullptr ? done : gone);
    EXPECT_TRUE(missing == nullptr || (missing >= pages.data() && missing < pages.data() + pages.size()));
  }
  ends = true;
  other.join();
  EXPECT_GT(rounds, 0);
}

}  // namespace
}  // namespace sidelatch::softnic::nic
