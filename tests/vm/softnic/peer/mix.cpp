// A long stream of all operations on one connection, both ways at once, drawn from a seed. On a wire that loses,
// doubles and reorders frames, each must be executed exactly once.
//
// Both peers know both scripts. Requests of one connection are executed in order; a WRITE that would change an earlier
// READ's data has the fence. The results of each READ and atomic, and the final memory, therefore follow from the
// script alone. A WRITE that is executed again later covers a newer one, a repeated atomic shows in the next one's old
// value, a repeated SEND in the numbers.
#include "scenarios.h"

#include <arpa/inet.h>

#include <algorithm>
#include <deque>
#include <random>

namespace sidelatch::peer {

namespace {

// The target's memory: first the counted words, then the written data.
constexpr std::size_t kSum = 0;
constexpr std::size_t kSwapped = 8;
constexpr std::size_t kData = 64;
constexpr std::size_t kDataBytes = 32768;
constexpr std::size_t kReceives = 64;

struct Step {
  ibv_wr_opcode opcode;
  std::size_t length;  // of data
  std::size_t offset;  // within kData
  bool waits;          // for the READs in front of it, with the fence
};

class Script {
 public:
  Script(std::uint64_t seed, std::size_t count, std::size_t mtu) {
    std::mt19937_64 random(seed);
    static constexpr ibv_wr_opcode kOpcodes[] = {
        IBV_WR_SEND,       IBV_WR_SEND_WITH_IMM,        IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,  IBV_WR_RDMA_READ,
        IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
    for (std::size_t i = 0; i < count; ++i) {
      const ibv_wr_opcode opcode = kOpcodes[random() % std::size(kOpcodes)];
      // Mostly short, sometimes several packets.
      const std::size_t length = random() % 4 == 0 ? random() % (3 * mtu) : random() % 64;
      const std::size_t offset = random() % (kDataBytes - length);
      steps.push_back({opcode, length, offset, is_write(opcode) && is_being_read(offset, length)});
    }
  }
  [[nodiscard]] bool takes_receive(std::size_t i) const {
    const ibv_wr_opcode opcode = steps[i].opcode;
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }

  std::vector<Step> steps;

 private:
  [[nodiscard]] static bool is_write(ibv_wr_opcode opcode) {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  // Whether one of the last kDepth requests reads it. The responder may sample a READ's data after it has executed
  // later requests (9.5 of the InfiniBand specification), and WRITEs change that data.
  [[nodiscard]] bool is_being_read(std::size_t offset, std::size_t length) const {
    return std::any_of(
        steps.end() - static_cast<std::ptrdiff_t>(std::min(steps.size(), kDepth)), steps.end(), [&](const Step& step) {
          return step.opcode == IBV_WR_RDMA_READ && step.offset < offset + length && offset < step.offset + step.length;
        });
  }
};

ibv_wc_opcode completion_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    default:
      return IBV_WC_SEND;
  }
}

// The required contents of memory after each step.
class Image {
 public:
  Image() : bytes_(kData + kDataBytes, kUntouched) {
    set(kSum, 0);
    set(kSwapped, 0);
  }
  // Returns the step's result: bytes read, or the old value.
  std::vector<std::byte> apply(const Step& step, std::size_t i, std::uint64_t seed) {
    std::vector<std::byte> found;
    const auto data = std::span(bytes_).subspan(kData + step.offset, step.length);
    switch (step.opcode) {
      case IBV_WR_RDMA_WRITE:
      case IBV_WR_RDMA_WRITE_WITH_IMM:
        fill(data, seed + i);
        break;
      case IBV_WR_RDMA_READ:
        found.assign(data.begin(), data.end());
        break;
      case IBV_WR_ATOMIC_FETCH_AND_ADD:
        found = add(i);
        break;
      case IBV_WR_ATOMIC_CMP_AND_SWP:
        found = swap(i);
        break;
      default:
        break;
    }
    return found;
  }
  [[nodiscard]] std::uint64_t swapped() const { return get(kSwapped); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  [[nodiscard]] std::uint64_t get(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  void set(std::size_t offset, std::uint64_t value) { std::memcpy(bytes_.data() + offset, &value, sizeof value); }
  std::vector<std::byte> word(std::size_t offset) const {
    return {bytes_.begin() + static_cast<std::ptrdiff_t>(offset),
            bytes_.begin() + static_cast<std::ptrdiff_t>(offset + 8)};
  }
  std::vector<std::byte> add(std::size_t i) {
    std::vector<std::byte> old = word(kSum);
    set(kSum, get(kSum) + i + 1);
    return old;
  }
  std::vector<std::byte> swap(std::size_t i) {
    std::vector<std::byte> old = word(kSwapped);
    set(kSwapped, i + 1);
    return old;
  }

  std::vector<std::byte> bytes_;
};

// One peer's part: its requests and its receives.
class Stream {
 public:
  Stream(const Session& session, std::size_t slot_bytes)
      : session_(session),
        mine_(seed_of(session.rank()), session.options.count, session.options.mtu),
        theirs_(seed_of(1 - session.rank()), session.options.count, session.options.mtu),
        slot_bytes_(slot_bytes),
        memory_(session.device, kData + kDataBytes, kAllRights),
        sources_(session.device, kDepth * slot_bytes, IBV_ACCESS_LOCAL_WRITE),
        arrivals_(session.device, kReceives * slot_bytes, IBV_ACCESS_LOCAL_WRITE),
        link_(session, memory_, {}) {}

  void run() {
    memory_.set_word(kSum, 0);
    memory_.set_word(kSwapped, 0);
    for (std::size_t i = 0; i < kReceives; ++i) {
      post_receive(i);
    }
    session_.barrier("the stream begins");
    const auto until = std::chrono::steady_clock::now() + kPatience;
    const auto all = static_cast<std::size_t>(
        std::ranges::count_if(theirs_indices(), [&](std::size_t i) { return theirs_.takes_receive(i); }));
    while (completed_ < mine_.steps.size() || received_ < all) {
      require(std::chrono::steady_clock::now() < until, "{} of {} requests completed, {} of {} received", completed_,
              mine_.steps.size(), received_, all);
      while (posted_ < mine_.steps.size() && posted_ < completed_ + kDepth && !must_wait()) {
        post();
      }
      for (const ibv_wc& completion : poll(link_.send_queue())) {
        complete(completion);
      }
      for (const ibv_wc& completion : poll(link_.receive_queue())) {
        receive(completion);
      }
      ::sched_yield();
    }
    session_.barrier("the stream has ended");
    expect_nothing_more(link_.send_queue(), "the stream's requests");
    expect_nothing_more(link_.receive_queue(), "the stream's receives");
    Image wanted;
    for (const std::size_t i : theirs_indices()) {
      wanted.apply(theirs_.steps[i], i, seed_of(1 - session_.rank()));
    }
    expect_equal(memory_.bytes(), wanted.bytes(), "memory at the end of the stream");
  }

 private:
  [[nodiscard]] std::uint64_t seed_of(int rank) const {
    return session_.options.seed * 1000003 + static_cast<std::uint64_t>(rank) * 500009;
  }
  [[nodiscard]] std::vector<std::size_t> theirs_indices() const {
    std::vector<std::size_t> all(theirs_.steps.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = i;
    }
    return all;
  }
  void post_receive(std::size_t number) {
    const std::size_t slot = number % kReceives;
    clear(arrivals_.bytes(slot * slot_bytes_, slot_bytes_));
    link_.post_receive(number, {arrivals_.piece(slot * slot_bytes_, slot_bytes_)});
  }

  // Replaces the fence for a requester that sometimes stops behind one (Device::has_good_fence()).
  [[nodiscard]] bool must_wait() const {
    return !session_.device.has_good_fence() && mine_.steps[posted_].waits && completed_ < posted_;
  }

  void post() {
    const std::size_t i = posted_++;
    const Step& step = mine_.steps[i];
    const std::size_t at = (i % kDepth) * slot_bytes_;
    const bool is_atomic = step.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || step.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const bool is_read = step.opcode == IBV_WR_RDMA_READ;
    const std::size_t length = is_atomic ? 8 : step.length;
    clear(sources_.bytes(at, slot_bytes_));
    if (!is_atomic && !is_read) {
      fill(sources_.bytes(at, length), seed_of(session_.rank()) + i);
    }
    Request request = {
        .opcode = step.opcode,
        .from = {sources_.piece(at, length)},
        .remote_offset = kData + step.offset,
        .id = i,
        .flags = IBV_SEND_SIGNALED | (step.waits && session_.device.has_good_fence() ? unsigned{IBV_SEND_FENCE} : 0U),
        .immediate = static_cast<std::uint32_t>(i)};
    if (step.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.remote_offset = kSum;
      request.compare_add = i + 1;
    } else if (step.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
      request.remote_offset = kSwapped;
      request.compare_add = image_.swapped();
      request.swap = i + 1;
    }
    found_.push_back(image_.apply(step, i, seed_of(session_.rank())));
    link_.post(request);
  }

  void complete(const ibv_wc& completion) {
    const std::size_t i = completed_++;
    const Step& step = mine_.steps[i];
    expect_done(completion, i, completion_of(step.opcode), "the stream");
    const std::vector<std::byte> wanted = std::move(found_.front());
    found_.pop_front();
    if (!wanted.empty()) {
      const auto slot = sources_.bytes((i % kDepth) * slot_bytes_, slot_bytes_);
      expect_equal(slot.first(wanted.size()), wanted,
                   fmt::format("what request {} (opcode {}) found", i, static_cast<int>(step.opcode)));
      expect_untouched(slot.subspan(wanted.size()), "behind what a request found");
    }
  }

  // Messages arrive in the order in which they were sent.
  void receive(const ibv_wc& completion) {
    const std::size_t number = received_++;
    while (next_from_ < theirs_.steps.size() && !theirs_.takes_receive(next_from_)) {
      ++next_from_;
    }
    require(next_from_ < theirs_.steps.size(), "message {} is one too many", number);
    const std::size_t i = next_from_++;
    const Step& step = theirs_.steps[i];
    const bool is_write = step.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    expect_done(completion, number, is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, "a message of the stream");
    require(completion.byte_len == step.length, "message {}: {} bytes, not {}", i, completion.byte_len, step.length);
    const bool has_immediate = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    require(has_immediate == (step.opcode != IBV_WR_SEND), "message {}: immediate data or not", i);
    require(!has_immediate || ntohl(completion.imm_data) == i, "message {} says that it is {}", i,
            ntohl(completion.imm_data));
    const auto slot = arrivals_.bytes((number % kReceives) * slot_bytes_, slot_bytes_);
    const std::size_t length = is_write ? 0 : step.length;
    expect_filled(slot.first(length), seed_of(1 - session_.rank()) + i, fmt::format("message {}", i));
    expect_untouched(slot.subspan(length), "behind a message");
    post_receive(number + kReceives);
  }

  const Session& session_;
  Script mine_;
  Script theirs_;
  std::size_t slot_bytes_;
  Buffer memory_;
  Buffer sources_;
  Buffer arrivals_;
  Link link_;
  Image image_;                               // of the partner's memory, behind all that was posted
  std::deque<std::vector<std::byte>> found_;  // by those that are on their way
  std::size_t posted_ = 0;
  std::size_t completed_ = 0;
  std::size_t received_ = 0;
  std::size_t next_from_ = 0;
};

}  // namespace

void mix(const Session& session) {
  Stream stream(session, 3 * session.options.mtu + 64);
  stream.run();
}

}  // namespace sidelatch::peer
