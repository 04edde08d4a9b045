// What a scheme's program must promise, judged while it runs: for searches in which steps happen in the order in which
// they run (World::judges_in_order). It keeps no history but what can still matter: who is inside, the largest number
// that has ended, and for each read which newer words were placed before its last post.
#pragma once

#include <sidelatch/checker/schemes.h>
#include <sidelatch/explore/world.h>

#include <cstdint>
#include <span>
#include <vector>

namespace sidelatch::explore {

class SchemeMonitor {
 public:
  /// Tags of reads are `first_read_tag` plus 1000 for each client; those of updates are their numbers. `memory` is the
  /// object's, `latch` its latch word in it.
  SchemeMonitor(World& world, checker::Promise promise, std::uint32_t clients, fabric::RemoteSpan memory,
                fabric::RemoteAddress latch, std::uint64_t first_read_tag);
  SchemeMonitor(const SchemeMonitor&) = delete;
  SchemeMonitor& operator=(const SchemeMonitor&) = delete;
  ~SchemeMonitor() = default;

  void began(std::uint32_t client, bool writes);
  void entered(std::uint32_t client);
  void left(std::uint32_t client);
  /// A read is accepted because of what was posted so far.
  void accepts(std::uint32_t client, std::uint64_t number);
  void ended(std::uint32_t client, std::uint64_t number);
  /// The read was not accepted: nothing is promised.
  void refused(std::uint32_t client);

  /// Of the updates that have ended, in order.
  [[nodiscard]] const std::vector<std::uint64_t>& numbers() const noexcept { return numbers_; }

 private:
  struct Client {
    bool writes = false;
    bool is_inside = false;
    bool met_one_that_ended = false;  // was inside together with an operation that has ended
    std::uint32_t meets = 0;          // clients whose present operations were inside together with this one, as bits
    std::uint64_t floor = 0;          // the largest number that had ended before it began, if it must not be smaller
    std::uint64_t too_new = 0;        // the number of an update that an accepted read should have kept out
    std::vector<std::uint8_t> sampled{};   // by word of the memory: read in this attempt
    std::vector<std::uint16_t> at_post{};  // by word: the newest update that was there at the last post
  };
  void forget(std::uint32_t client);
  void watch();
  template <class Do>
  void for_words(const Order::Access& access, const Do& visit);

  World* world_;
  checker::Promise promise_;
  fabric::RemoteSpan memory_;
  std::uint64_t latch_word_;
  std::uint64_t first_read_tag_;
  std::vector<Client> clients_;
  std::vector<std::uint16_t> placed_;  // by word: the newest update that was placed
  std::vector<std::uint64_t> numbers_;
  std::uint64_t newest_ = 0;       // of all that have ended
  std::uint64_t newest_read_ = 0;  // of the reads
};

}  // namespace sidelatch::explore
