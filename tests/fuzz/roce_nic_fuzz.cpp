// Properties of a NIC that hold for any input: memory outside of regions is unchanged, memory in regions is touched
// only as their rights allow, a region that has ended is not touched, each request completes once, every frame sent is
// valid, and in the end the NIC comes to rest. Run by libFuzzer (`scripts/fuzz roce-nic`), and briefly by
// roce_nic_test.cpp.
#include "tests/fuzz/roce_nic_fuzz.h"

#include "softnic/nic/deferred_access.h"
#include "softnic/nic/nic.h"
#include "softnic/nic/path.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

constexpr std::size_t kMemoryBytes = 4096;
constexpr std::uint64_t kAddress = 0x10000;  // of the first byte, as requests name it
constexpr std::byte kFilling{0x5e};
constexpr MacAddress kPeerMac{2, 9, 9, 9, 9, 9};
const Gid kPeerGid = gid_of({10, 0, 0, 99});
const Gid kOwnGid = gid_of({10, 0, 0, 1});
constexpr MacAddress kOwnMac{2, 0, 0, 0, 0, 1};
constexpr std::uint32_t kPeerPair = 0xabcdef;
constexpr std::uint32_t kQKey = 0x11223344;
constexpr Psn kToNic{0x000100};
constexpr Psn kFromNic{0xfffffe};
constexpr std::uint32_t kDepth = 8;
constexpr PathMtu kMtu = PathMtu::b256;

// Memory between and around the areas belongs to no region.
struct Area {
  std::size_t offset;
  std::size_t length;
  Rights rights;
  bool is_foreign = false;  // of another protection domain
};
enum AreaNumber : std::size_t { kOpen, kReadable, kBuffers, kWritable, kForeign };
constexpr std::array<Area, 5> kAreas{{{512, 1024, Rights::all},
                                      {1600, 448, Rights::remote_read},
                                      {2112, 448, Rights::local_write},
                                      {2624, 448, Rights::local_write | Rights::remote_write},
                                      {3136, 448, Rights::all, true}}};
// Offsets within kBuffers.
constexpr std::size_t kReceiveOffset = 2112;
constexpr std::size_t kReceiveBytes = 300;
constexpr std::size_t kLocalOffset = kReceiveOffset + kReceiveBytes;

class InputReader {
 public:
  explicit InputReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  [[nodiscard]] bool is_empty() const { return rest_.empty(); }
  /// Returns zeros behind the end.
  template <class T>
  T take() {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      if (!rest_.empty()) {
        value = static_cast<T>(value | static_cast<T>(std::to_integer<std::uint64_t>(rest_[0]) << (8 * i)));
        rest_ = rest_.subspan(1);
      }
    }
    return value;
  }
  std::span<const std::byte> take_bytes(std::size_t bytes) {
    const auto taken = rest_.first(std::min(bytes, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
};

// A request that has been posted and not completed.
struct Posted {
  std::uint32_t queue_pair = 0;
  bool is_receive = false;
  std::size_t offset = 0;
  std::size_t length = 0;
};

// The state known to the program that owns the NIC, independent of the NIC.
struct Ledger {
  explicit Ledger(NicMistake made) : mistake(made) { memory.fill(kFilling); }

  void require(bool holds, const char* what) {
    if (!holds && attack.harm.empty()) {
      attack.harm = what;
    }
  }
  [[nodiscard]] bool is_in(const std::byte* data, std::size_t length, std::size_t offset, std::size_t bytes) const {
    const std::byte* const begin = memory.data() + offset;
    return data >= begin && data + length <= begin + bytes;
  }
  /// Whether a live region of the NIC's own domain with these rights contains it.
  [[nodiscard]] bool may_touch(const std::byte* data, std::size_t length, Rights needed) const {
    for (std::size_t i = 0; i < kAreas.size(); ++i) {
      if (keys[i] != 0 && !kAreas[i].is_foreign && allows(kAreas[i].rights, needed) &&
          is_in(data, length, kAreas[i].offset, kAreas[i].length)) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] bool is_posted(const std::byte* data, std::size_t length, bool is_receive) const {
    return std::ranges::any_of(posted, [&](const auto& each) {
      return each.second.is_receive == is_receive && is_in(data, length, each.second.offset, each.second.length);
    });
  }

  const NicMistake mistake;
  alignas(64) std::array<std::byte, kMemoryBytes> memory{};
  std::array<std::uint32_t, kAreas.size()> keys{};  // 0: it has ended
  std::map<std::uint64_t, Posted> posted;
  NicAttack attack;
};

// Checks every access of the NIC to memory: it must be requested and allowed.
class CheckedAccess final : public MemoryAccess {
 public:
  CheckedAccess(Ledger& ledger, std::unique_ptr<MemoryAccess> real) : ledger_(ledger), real_(std::move(real)) {}

  [[nodiscard]] bool is_immediate() const noexcept override { return real_->is_immediate(); }
  [[nodiscard]] bool acknowledges_placed() const noexcept override { return real_->acknowledges_placed(); }
  [[nodiscard]] const std::byte* place(const AccessSource& source, std::byte* to,
                                       std::span<const std::byte> bytes) override {
    ++ledger_.attack.placed;
    if (source.kind == fabric::model::Kind::write) {
      ledger_.require(ledger_.may_touch(to, bytes.size(), Rights::remote_write), "a WRITE without the right to it");
    } else {
      ledger_.require(ledger_.may_touch(to, bytes.size(), Rights::local_write), "a SEND without the right to it");
      ledger_.require(ledger_.is_posted(to, bytes.size(), true), "a SEND outside of receive buffers");
    }
    if (ledger_.mistake == NicMistake::writes_outside) {
      ledger_.memory[0] = std::byte{0};
    }
    return real_->place(source, to, bytes);
  }
  void sample(const AccessSource& source, const std::byte* from, std::span<std::byte> into,
              Operation& operation) override {
    ++ledger_.attack.sampled;
    const std::byte* const taken = ledger_.mistake == NicMistake::ignores_rights ? ledger_.memory.data() : from;
    ledger_.require(ledger_.may_touch(taken, into.size(), Rights::remote_read), "a READ without the right to it");
    real_->sample(source, from, into, operation);
  }
  void atomic(const AccessSource& source, std::byte* word, const AtomicStep& step, Operation& operation) override {
    ++ledger_.attack.atomics;
    const Rights needed = step.is_swap ? Rights::remote_write : Rights::remote_atomic;
    ledger_.require(ledger_.may_touch(word, 8, needed), "an atomic without the right to it");
    real_->atomic(source, word, step, operation);
  }
  void receive(const AccessSource& source, Operation& operation) override { real_->receive(source, operation); }
  void acknowledged(std::uint32_t queue_pair) override { real_->acknowledged(queue_pair); }
  [[nodiscard]] const std::byte* fetch(std::span<std::byte> into, const std::byte* from) override {
    ledger_.require(ledger_.is_posted(from, into.size(), false), "a fetch from no request's buffer");
    return real_->fetch(into, from);
  }
  [[nodiscard]] const std::byte* deliver(std::byte* to, std::span<const std::byte> bytes) override {
    ++ledger_.attack.delivered;
    ledger_.require(ledger_.is_posted(to, bytes.size(), false), "a delivery to no request's buffer");
    ledger_.require(ledger_.may_touch(to, bytes.size(), Rights::local_write), "a delivery without the right to it");
    return real_->deliver(to, bytes);
  }
  void end_queue_pair(std::uint32_t queue_pair) override { real_->end_queue_pair(queue_pair); }
  void end_region(std::uint32_t key) override {
    if (ledger_.mistake != NicMistake::ignores_deregistering) {
      real_->end_region(key);
    }
  }
  bool advance(Time now) override { return real_->advance(now); }
  [[nodiscard]] Time next_deadline() const noexcept override { return real_->next_deadline(); }

 private:
  Ledger& ledger_;
  std::unique_ptr<MemoryAccess> real_;
};

std::unique_ptr<MemoryAccess> make_access(InputReader& input) {
  const auto kind = input.take<std::uint8_t>();
  const auto seed = input.take<std::uint8_t>();
  if (kind % 5 == 0) {
    return std::make_unique<ImmediateAccess>();
  }
  constexpr std::array kPresets{fabric::model::Preset::strict, fabric::model::Preset::observed,
                                fabric::model::Preset::spec, fabric::model::Preset::relaxed};
  return std::make_unique<DeferredAccess>(DeferredOptions{
      .rules = fabric::model::rules_of(kPresets.at(kind % 5 - 1)), .seed = seed, .torn_bias = kind / 255.0});
}

class Attack {
 public:
  Attack(InputReader& input, NicMistake mistake)
      : input_(input), ledger_(mistake), access_(ledger_, make_access(input)), nic_(options(), access_) {
    for (std::size_t i = 0; i < kAreas.size(); ++i) {
      add_region(i);
    }
    shared_.hold_until_polled();
    xrc_queue_.hold_until_polled();
    for (QueuePair* const pair : pairs_) {
      bring_up(*pair);
    }
    snapshot_ = ledger_.memory;
  }

  NicAttack run() {
    // Commands have a cost, and an input may have thousands.
    for (int commands = 0; commands < 300 && !input_.is_empty() && ledger_.attack.harm.empty(); ++commands) {
      take_command();
    }
    come_to_rest();
    ledger_.attack.counters = nic_.counters();
    return ledger_.attack;
  }

 private:
  static NicOptions options() { return {.mac = kOwnMac, .gids = {kOwnGid}, .window_packets = 16}; }
  [[nodiscard]] QueuePairOptions target_options() const {
    return {.type = QueuePairType::xrc_target,
            .send_depth = 0,
            .receive_depth = 0,
            .most_send_sges = 0,
            .most_receive_sges = 0,
            .xrc_domain = xrc_};
  }
  [[nodiscard]] QueuePairOptions pair_options(QueuePairType type, ReceiveQueue* shared) {
    return {.type = type,
            .domain = domain_,
            .send_completions = &completions_,
            .receive_completions = &completions_,
            .shared_receives = shared,
            .send_depth = kDepth,
            .receive_depth = kDepth,
            .most_send_sges = 2,
            .most_receive_sges = 2,
            .holds_until_polled = true,
            .number = 0};
  }

  void add_region(std::size_t i) {
    const Area& area = kAreas[i];
    ledger_.keys[i] = nic_.register_memory({ledger_.memory.data() + area.offset, area.length, kAddress + area.offset,
                                            area.is_foreign ? foreign_ : domain_, area.rights | Rights::window_bind});
    last_keys_[i] = ledger_.keys[i];
  }

  static void bring_up(QueuePair& pair) {
    using A = Attributes;
    const QueuePairType type = pair.options().type;
    const bool is_ud = type == QueuePairType::ud;
    const A responds = type == QueuePairType::uc ? A::none : A::max_dest_rd_atomic | A::min_rnr_timer;
    const A requests =
        type == QueuePairType::uc ? A::none : A::timeout | A::retry_count | A::rnr_retry | A::max_rd_atomic;
    pair.modify({.state = QueuePairState::init, .rights = Rights::all, .q_key = kQKey},
                A::state | A::p_key_index | A::port | (is_ud ? A::q_key : A::rights));
    pair.modify({.state = QueuePairState::rtr,
                 .address = {.mac = kPeerMac, .gid = kPeerGid},
                 .path_mtu = kMtu,
                 .receive_psn = kToNic,
                 .min_rnr_timer = 1,
                 .max_dest_rd_atomic = 3,
                 .remote_qp = kPeerPair},
                is_ud ? A::state : A::state | A::address | A::path_mtu | A::remote_qp | A::receive_psn | responds);
    pair.modify({.state = QueuePairState::rts,
                 .timeout = 1,
                 .retry_count = 2,
                 .rnr_retry = 1,
                 .max_rd_atomic = 2,
                 .send_psn = kFromNic},
                is_ud ? A::state | A::send_psn : A::state | A::send_psn | requests);
  }

  void take_command() {
    switch (input_.take<std::uint8_t>() % 12) {
      case 0:
        send(input_.take_bytes(input_.take<std::uint16_t>() % 600));
        break;
      case 1:
        send_mended();
        break;
      case 2:
      case 3:
      case 4:
        send_packet();
        break;
      case 5:
        now_ += input_.take<std::uint16_t>() * Time{16};
        nic_.advance(now_);
        break;
      case 6:
        pull(input_.take<std::uint8_t>() % 16);
        break;
      case 7:
        post_send();
        break;
      case 8:
        post_receive();
        break;
      case 9:
        make_ready(choose_pair());
        break;
      case 10:
        end_or_begin_region(input_.take<std::uint8_t>() % kAreas.size());
        break;
      default:
        poll();
        break;
    }
    check_memory();
  }

  // The first three mostly, as the corpus knows them.
  QueuePair& choose_pair() {
    const auto choice = input_.take<std::uint8_t>();
    return choice < 192 ? *pairs_[choice % 3] : *pairs_[3 + choice % 2];
  }

  void send(std::span<const std::byte> frame) {
    // A heap copy of exactly this size, so that AddressSanitizer detects the first byte outside.
    const std::unique_ptr<std::byte[]> copy(new std::byte[frame.size()]);
    std::copy_n(frame.data(), frame.size(), copy.get());
    nic_.on_frame({copy.get(), frame.size()}, now_);
  }

  Packet headers_for(const QueuePair& pair) {
    return Path({.mac = kOwnMac, .gid = kOwnGid}, kPeerMac, kPeerGid, kPeerPair, pair.number()).packet();
  }

  void send_built(const Packet& packet) {
    std::vector<std::byte> frame(encoded_bytes(packet));
    if (std::holds_alternative<std::size_t>(build(packet, frame))) {
      send(frame);
    }
  }

  // Any BTH and extension headers, with valid outer headers.
  void send_mended() {
    const QueuePair& pair = choose_pair();
    const bool keeps_pair = (input_.take<std::uint8_t>() & 7) == 0;
    const auto bytes = input_.take_bytes(Bth::kBytes + input_.take<std::uint16_t>() % 600);
    if (bytes.size() < Bth::kBytes) {
      return;
    }
    Packet packet = headers_for(pair);
    const Bth ours = packet.bth;
    packet.bth = Bth::read(bytes.data());
    if (!keeps_pair) {
      packet.bth.destination_qp = ours.destination_qp;
      packet.bth.p_key = ours.p_key;
    }
    const auto traits = traits_of(packet.bth.opcode);
    std::size_t at = Bth::kBytes;
    const auto read = [&]<class Header>(bool there, Header& header) {
      if (there && at + Header::kBytes <= bytes.size()) {
        header = Header::read(bytes.data() + at);
        at += Header::kBytes;
      }
    };
    if (!traits) {
      return;  // only as it is
    }
    read(traits->xrceth, packet.xrceth);
    read(traits->deth, packet.deth);
    read(traits->reth, packet.reth);
    read(traits->atomic_eth, packet.atomic);
    read(traits->aeth, packet.aeth);
    read(traits->atomic_ack_eth, packet.atomic_ack);
    read(traits->immediate, packet.immediate);
    read(traits->ieth, packet.ieth);
    packet.payload = bytes.subspan(at);
    send_built(packet);
  }

  // Each field is near the value that the NIC expects.
  void send_packet() {
    constexpr std::array kOpcodes{Opcode::send_first,
                                  Opcode::send_middle,
                                  Opcode::send_last,
                                  Opcode::send_last_with_immediate,
                                  Opcode::send_only,
                                  Opcode::send_only_with_immediate,
                                  Opcode::write_first,
                                  Opcode::write_middle,
                                  Opcode::write_last,
                                  Opcode::write_last_with_immediate,
                                  Opcode::write_only,
                                  Opcode::write_only_with_immediate,
                                  Opcode::read_request,
                                  Opcode::read_response_first,
                                  Opcode::read_response_middle,
                                  Opcode::read_response_last,
                                  Opcode::read_response_only,
                                  Opcode::acknowledge,
                                  Opcode::atomic_acknowledge,
                                  Opcode::compare_swap,
                                  Opcode::fetch_add,
                                  Opcode::send_last_with_invalidate,
                                  Opcode::send_only_with_invalidate,
                                  Opcode::ud_send_only,
                                  Opcode::ud_send_only_with_immediate,
                                  Opcode::atomic_write};
    const QueuePair& pair = choose_pair();
    Packet packet = headers_for(pair);
    const auto choice = input_.take<std::uint8_t>();
    packet.bth.opcode = choice >= 250 ? Opcode::atomic_write : kOpcodes.at(choice % (kOpcodes.size() - 1));
    if (const Service service = service_of(pair.options().type); service != Service::rc && service != Service::ud) {
      packet.bth.opcode = in(service, operation_of(packet.bth.opcode));
      packet.xrceth = {.srq = choice >= 128 ? xrc_queue_.number() : choice};
    }
    if (!traits_of(packet.bth.opcode)) {
      return;
    }
    const bool is_answer = traits_of(packet.bth.opcode)->aeth || packet.bth.opcode == Opcode::read_response_middle;
    const QueuePairAttributes now = pair.query();
    // Signed, in one byte, so that most values are near.
    const auto behind = static_cast<std::uint32_t>(static_cast<std::int8_t>(input_.take<std::uint8_t>()));
    packet.bth.psn = Psn(((is_answer ? now.send_psn.value() - 1 : now.receive_psn.value()) + behind) & Psn::kMask);
    const auto flags = input_.take<std::uint8_t>();
    packet.bth.ack_request = (flags & 1) != 0;
    packet.bth.solicited_event = (flags & 2) != 0;
    const std::size_t length = length_of_payload(packet.bth.opcode);
    const std::vector<std::byte> payload(length, static_cast<std::byte>(input_.take<std::uint8_t>()));
    packet.payload = payload;
    const std::uint64_t address = kAddress + input_.take<std::uint16_t>() % (kMemoryBytes + 64) - 32;
    const std::uint32_t key = choose_key();
    packet.reth = {address, key, choose_length(packet.bth.opcode, length, flags)};
    packet.atomic = {(flags & 16) != 0 ? address : address & ~std::uint64_t{7}, key, input_.take<std::uint8_t>(),
                     static_cast<std::uint64_t>(kFilling) * 0x0101010101010101};
    packet.aeth = {Syndrome((flags & 32) != 0 ? input_.take<std::uint8_t>() : 0x1f), 0};
    packet.ieth = {key};
    packet.deth = {.q_key = (flags & 64) != 0 ? 0 : kQKey, .source_qp = 3};
    send_built(packet);
  }

  std::size_t length_of_payload(Opcode opcode) {
    const auto wanted = input_.take<std::uint16_t>();
    switch (traits_of(opcode)->payload) {
      case PayloadRule::none:
        return 0;
      case PayloadRule::exact:
        return wanted % 16 == 0 ? 512 : 256;
      case PayloadRule::non_empty:
        return 1 + wanted % 300;
      case PayloadRule::any:
        return wanted % 300;
      case PayloadRule::word:
        return 8;
    }
    return 0;
  }

  std::uint32_t choose_key() {
    const auto choice = input_.take<std::uint8_t>();
    return choice < 250 ? last_keys_[choice % last_keys_.size()] : last_keys_[0] + (choice - 252U);
  }

  std::uint32_t choose_length(Opcode opcode, std::size_t payload, unsigned flags) {
    switch (flags >> 2 & 3) {
      case 0:
      case 1:
        return opcode == Opcode::read_request ? input_.take<std::uint8_t>() * 3U : static_cast<std::uint32_t>(payload);
      case 2:
        return input_.take<std::uint16_t>() % 1200U;
      default:
        return input_.take<std::uint32_t>();
    }
  }

  void pull(int frames) {
    std::array<std::byte, kFrameRoom> frame{};
    for (; frames > 0; --frames) {
      const std::size_t bytes = nic_.pull_frame(frame, now_);
      if (bytes == 0) {
        return;
      }
      const auto parsed = parse_frame(std::span(frame).first(bytes));
      const auto* const packet = std::get_if<Packet>(&parsed);
      ledger_.require(packet != nullptr, "a frame that is no packet has left");
      ledger_.require(packet == nullptr || packet->bth.destination_qp == kPeerPair,
                      "a packet has left for another queue pair");
    }
  }

  void post_send() {
    QueuePair& pair = choose_pair();
    const auto chosen = input_.take<std::uint8_t>();
    const auto kind = static_cast<WorkKind>(chosen < 224 ? chosen % 8 : 8 + chosen % 3);
    if (is_local(kind)) {
      post_local(pair, kind);
      return;
    }
    const std::size_t most = is_atomic(kind) ? 8 : 136;
    const std::size_t length = is_atomic(kind) ? 8 : input_.take<std::uint8_t>() % (most + 1);
    // READs of more than a packet go to the open area.
    const bool is_long = kind == WorkKind::read && input_.take<std::uint8_t>() % 2 == 0;
    const std::size_t offset = is_long ? kAreas[kOpen].offset : kLocalOffset;
    const std::size_t bytes = is_long ? 600 : length;
    const Sge sge{kAddress + offset, static_cast<std::uint32_t>(bytes), last_keys_[is_long ? kOpen : kBuffers]};
    const Post post = pair.post_send({.id = next_id_,
                                      .kind = kind,
                                      .signaled = true,
                                      .fence = input_.take<std::uint8_t>() % 4 == 0,
                                      .sges = {&sge, 1},
                                      .remote_address = 0x1000,
                                      .rkey = 5,
                                      .to = {.mac = kPeerMac, .gid = kPeerGid},
                                      .remote_qp = kPeerPair,
                                      .remote_q_key = kQKey});
    note_posted(post, {pair.number(), false, offset, bytes});
  }

  // A binding of the window to any part of any region, and what ends it.
  void post_local(QueuePair& pair, WorkKind kind) {
    const Area& area = kAreas.at(input_.take<std::uint8_t>() % kAreas.size());
    const std::size_t i = static_cast<std::size_t>(&area - kAreas.data());
    const auto tag = input_.take<std::uint8_t>();
    const std::uint32_t key = (window_ & ~0xffU) | tag;
    const Post post = pair.post_send({.id = next_id_,
                                      .kind = kind,
                                      .signaled = true,
                                      .invalidate_key = tag % 2 == 0 ? nic_.window_key(window_) : key,
                                      .binding = {.window = window_,
                                                  .new_key = key,
                                                  .region = last_keys_[i],
                                                  .address = kAddress + area.offset + input_.take<std::uint8_t>(),
                                                  .length = input_.take<std::uint16_t>() % (area.length + 64),
                                                  .rights = static_cast<Rights>(tag & 14)}});
    note_posted(post, {pair.number(), false, 0, 0});
    if (post == Post::done && kind == WorkKind::bind_window) {
      last_keys_[i] = tag % 4 == 0 ? last_keys_[i] : key;
    }
  }

  void post_receive() {
    const auto choice = input_.take<std::uint8_t>();
    const auto length = static_cast<std::uint32_t>(input_.take<std::uint16_t>() % (kReceiveBytes + 1));
    const Sge sge{kAddress + kReceiveOffset, length, last_keys_[kBuffers]};
    const ReceiveRequest request{.id = next_id_, .sges = {&sge, 1}};
    if (choice % 2 == 0) {
      note_posted((choice >= 192 ? xrc_queue_ : shared_).post(request), {0, true, kReceiveOffset, length});
    } else {
      QueuePair& pair = *pairs_[choice >= 192 ? 3 : choice / 2 % 3];
      note_posted(pair.post_receive(request), {pair.number(), true, kReceiveOffset, length});
    }
  }

  void note_posted(Post post, const Posted& request) {
    if (post == Post::done) {
      ledger_.posted.emplace(next_id_++, request);
      const auto of_pair = std::ranges::count_if(ledger_.posted, [&](const auto& each) {
        return each.second.queue_pair == request.queue_pair && each.second.is_receive == request.is_receive;
      });
      // Entries are held until completions are polled. Each queue pair may have lost one of a shared queue by a reset.
      // Completions lost by a broken completion queue stay in the ledger.
      const auto most =
          request.queue_pair != 0 ? std::ptrdiff_t{kDepth} : std::ssize(pairs_) + kDepth + completions_.depth();
      ledger_.require(completions_.has_overrun() || of_pair <= most, "a queue takes more than its depth");
    }
  }

  void poll() {
    std::array<Completion, 4> completions;
    for (std::size_t count = completions_.poll(completions); count != 0; count = completions_.poll(completions)) {
      for (const Completion& completion : std::span(completions).first(count)) {
        ++(completion.status == CompletionStatus::success ? ledger_.attack.completed : ledger_.attack.failed);
        ledger_.require(ledger_.posted.erase(completion.id) == 1, "a completion of no request, or a second one");
      }
    }
    ledger_.require(completions_.size() <= completions_.depth(), "a completion queue holds more than its depth");
    while (nic_.next_event()) {
    }
  }

  void make_ready(QueuePair& pair) {
    poll();
    const auto choice = input_.take<std::uint8_t>();
    if (choice % 4 == 0 && pair.state() == QueuePairState::rts) {
      pair.modify({.state = QueuePairState::sqd}, Attributes::state);
      return;
    }
    if (choice % 4 == 1 && pair.state() == QueuePairState::sqd) {
      pair.modify({.state = QueuePairState::rts}, Attributes::state);
      return;
    }
    if (choice % 4 == 2) {
      pair.modify({.state = QueuePairState::error}, Attributes::state);
      return;
    }
    pair.modify({.state = QueuePairState::reset}, Attributes::state);
    bring_up(pair);
    // Its requests are forgotten and will not complete.
    std::erase_if(ledger_.posted, [&](const auto& each) { return each.second.queue_pair == pair.number(); });
  }

  // A region with windows does not end.
  void renew_window() {
    nic_.destroy_window(window_);
    window_ = nic_.make_window(domain_, WindowType::two);
  }

  void end_or_begin_region(std::size_t i) {
    if (ledger_.keys[i] == 0) {
      add_region(i);
    } else {
      renew_window();
      nic_.deregister_memory(std::exchange(ledger_.keys[i], 0));
      std::copy_n(ledger_.memory.begin() + static_cast<std::ptrdiff_t>(kAreas[i].offset), kAreas[i].length,
                  snapshot_.begin() + static_cast<std::ptrdiff_t>(kAreas[i].offset));
    }
  }

  // Memory that nobody may write, and memory of ended regions, must be unchanged.
  void check_memory() {
    std::size_t at = 0;
    for (std::size_t i = 0; i < kAreas.size(); ++i) {
      const Area& area = kAreas[i];
      check_unchanged(at, area.offset, "memory outside of all regions has changed");
      at = area.offset + area.length;
      if (ledger_.keys[i] == 0) {
        check_unchanged(area.offset, at, "memory of a region that has ended has changed");
      } else if (area.is_foreign || area.rights == Rights::remote_read) {
        check_unchanged(area.offset, at, "memory has changed that nobody may write");
      }
    }
    check_unchanged(at, kMemoryBytes, "memory outside of all regions has changed");
  }

  void check_unchanged(std::size_t begin, std::size_t end, const char* what) {
    // A bytewise comparison would make libFuzzer record each byte.
    ledger_.require(std::memcmp(ledger_.memory.data() + begin, snapshot_.data() + begin, end - begin) == 0, what);
  }

  // No more input comes: the NIC gives up waiting, and each request that must complete has completed.
  void come_to_rest() {
    int rounds = 0;
    for (; rounds < 3000 && (nic_.has_frames() || nic_.next_deadline() != kNever); ++rounds) {
      pull(64);
      poll();
      if (!nic_.has_frames() && nic_.next_deadline() != kNever) {
        now_ = std::max(now_, nic_.next_deadline());
        nic_.advance(now_);
      }
    }
    ledger_.require(rounds < 3000, "the NIC never comes to rest");
    poll();
    check_memory();
    for (const auto& [id, request] : ledger_.posted) {
      const QueuePair* const pair = nic_.find_queue_pair(request.queue_pair);
      if (pair == nullptr || completions_.has_overrun()) {
        continue;  // in the shared queue, or lost with the completion queue
      }
      const QueuePairState state = pair->state();
      ledger_.require(request.is_receive ? state != QueuePairState::error
                                         : state == QueuePairState::sqd || state == QueuePairState::reset,
                      "a request has not completed");
    }
  }

  InputReader& input_;
  Ledger ledger_;
  CheckedAccess access_;
  Nic nic_;
  Domain domain_ = nic_.make_domain();
  Domain foreign_ = nic_.make_domain();
  CompletionQueue& completions_ = nic_.make_completion_queue(4 * kDepth);
  ReceiveQueue& shared_ = nic_.make_shared_receive_queue(domain_, kDepth, 2);
  std::uint32_t xrc_ = nic_.make_xrc_domain();
  ReceiveQueue& xrc_queue_ = nic_.make_xrc_receive_queue(domain_, kDepth, 2, xrc_, completions_);
  std::uint32_t window_ = nic_.make_window(domain_, WindowType::two);
  std::array<QueuePair*, 5> pairs_{&nic_.make_queue_pair(pair_options(QueuePairType::rc, nullptr)),
                                   &nic_.make_queue_pair(pair_options(QueuePairType::rc, &shared_)),
                                   &nic_.make_queue_pair(pair_options(QueuePairType::ud, nullptr)),
                                   &nic_.make_queue_pair(pair_options(QueuePairType::uc, nullptr)),
                                   &nic_.make_queue_pair(target_options())};
  std::array<std::uint32_t, kAreas.size()> last_keys_{};
  std::array<std::byte, kMemoryBytes> snapshot_{};
  std::uint64_t next_id_ = 1;
  Time now_ = 1000;
};

}  // namespace

NicAttack attack_nic(std::span<const std::byte> input, NicMistake mistake) {
  InputReader rest(input);
  return Attack(rest, mistake).run();
}

}  // namespace sidelatch::softnic::nic

#ifdef SIDELATCH_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto attack = sidelatch::softnic::nic::attack_nic(std::as_bytes(std::span(data, size)));
  if (!attack.harm.empty()) {
    std::fprintf(stderr, "roce_nic_fuzz: %s\n", attack.harm.c_str());
    std::abort();
  }
  return 0;
}
#endif
