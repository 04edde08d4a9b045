// Random programs: retry loops of every shape, with what may confuse an explorer around and inside of them.
#include "program.h"

#include <fmt/format.h>

#include <optional>
#include <random>
#include <utility>

namespace sidelatch::explore::oracle {

namespace {

using What = Instruction::What;

constexpr std::uint64_t kQuarter = std::uint64_t{1} << 62;  // added four times, it is nothing
constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};

Operand number(std::uint64_t value) { return {value, false}; }
Operand in_register(std::uint8_t reg) { return {reg, true}; }

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}
  std::uint8_t below(std::uint64_t n) { return static_cast<std::uint8_t>(random_() % n); }
  bool once_in(std::uint64_t n) { return random_() % n == 0; }

 private:
  std::mt19937_64 random_;
};

// Makes the code of one task. Register 0 is what was last looked at; the others are the loops' own.
class Writer {
 public:
  Writer(Chance& chance, ProgramList& program, Flow& flow, std::vector<std::uint8_t> qps, std::uint64_t& values)
      : chance_(&chance), program_(&program), flow_(&flow), qps_(std::move(qps)), values_(&values) {}

  void share_an_object(std::uint64_t seed) { objects_.emplace(seed); }

  // A request of any sort to a word at random. In a loop it adds what comes to nothing in the end.
  void data(bool in_loop) {
    if (flow_->sort != Flow::Sort::client) {
      local_data();
      return;
    }
    if (objects_ && objects_->once_in(3)) {
      object_data();
      if (objects_->once_in(2)) {
        return;
      }
    }
    const std::uint8_t kind = chance_->below(5);
    const std::uint8_t word = chance_->below(program_->words);
    const bool waited = shared_ || !chance_->once_in(3);
    const bool many = chance_->once_in(5);
    if (read_early_ != kSlots && chance_->once_in(2)) {
      use_early();
      return;
    }
    const auto words = static_cast<std::uint8_t>(many ? program_->words - word : 1);
    switch (kind) {
      case 0:
      case 1:
        write(word, words, number(++*values_ * 16), waited);
        break;
      case 2:
        read(word, words, waited);
        break;
      case 3: {  // drawn in this order by every compiler, so that a seed means one program
        const Operand wanted = number(chance_->below(3));
        const Operand expected = number(chance_->below(2));
        atomic(What::swap, word, expected, wanted, waited);
        break;
      }
      default:
        atomic(What::add, word, {}, number(in_loop ? kQuarter : 1), waited);
        break;
    }
  }

  void raise(std::uint8_t word) {
    if (objects_ && objects_->once_in(2)) {
      step({.what = What::keep, .operand = number(1)});
    }
    if (flow_->sort == Flow::Sort::cpu) {
      step({.what = What::store, .word = word, .operand = number(1)});
    } else if (flow_->sort == Flow::Sort::memory_node) {
      step({.what = What::poke, .word = word, .operand = number(1)});
    } else if (chance_->once_in(2)) {
      atomic(What::add, word, {}, number(1), shared_ || chance_->once_in(2));
    } else {
      write(word, 1, number(1), shared_ || chance_->once_in(2));
    }
  }

  // The value of a word to register 0.
  void see(std::uint8_t word) {
    if (flow_->sort == Flow::Sort::cpu) {
      step({.what = What::load, .word = word, .reg = 0});
    } else if (flow_->sort == Flow::Sort::memory_node) {
      step({.what = What::peek, .word = word, .reg = 0});
    } else {
      read(word, 1, true);
    }
  }

  // Waits until a word is 1: alone, or together with another one.
  void wait_for(std::uint8_t word) {
    const Loop loop = begin();
    const bool counts = chance_->once_in(4);
    const bool acts = chance_->once_in(3);
    const bool undoes = chance_->once_in(2);
    const std::uint8_t on = chance_->below(program_->words);
    const bool carries = !counts && chance_->once_in(6);
    if (acts && flow_->sort == Flow::Sort::client) {
      atomic(What::add, on, {}, number(undoes ? 1 : kQuarter), shared_ || chance_->once_in(2));
    } else if (acts) {
      local_data();
    }
    std::vector<std::uint16_t> exits;
    std::vector<std::uint16_t> failures;
    see(word);
    if (objects_ && objects_->once_in(3)) {  // what it waits for is the object
      step({.what = What::recall, .reg = 0});
    }
    if (carries) {  // also if it is what it was in the last attempt, one more
      step({.what = What::go_if, .reg = 0, .operand = in_register(loop.carried)});
      exits.push_back(last());
      step({.what = What::set, .reg = loop.carried, .operand = in_register(0)});
      step({.what = What::plus, .reg = loop.carried, .operand = number(1)});
    }
    if (chance_->once_in(4)) {
      step({.what = What::go_unless, .reg = 0, .operand = number(1)});
      failures.push_back(last());
      see(chance_->below(program_->words));
    }
    if (chance_->once_in(6)) {
      nested();
      see(word);
    }
    step({.what = What::go_if, .reg = 0, .operand = number(1)});
    exits.push_back(last());
    for (const std::uint16_t failure : failures) {
      flow_->code[failure].to = here();
    }
    if (acts && undoes && flow_->sort == Flow::Sort::client) {
      atomic(What::add, on, {}, number(kMinusOne), shared_ || chance_->once_in(2));
    }
    const bool in_buffer = flow_->sort == Flow::Sort::client && chance_->once_in(2);
    const auto last_slot = static_cast<std::uint8_t>(kSlots - 1);
    if (counts) {
      if (in_buffer) {
        step({.what = What::look, .slot = last_slot, .reg = loop.carried});
      }
      step({.what = What::plus, .reg = loop.carried, .operand = number(1)});
      if (in_buffer) {
        step({.what = What::put, .slot = last_slot, .operand = in_register(loop.carried)});
      }
      if (chance_->once_in(2)) {
        step({.what = What::fail_if, .reg = loop.carried, .operand = number(2 + chance_->below(2))});
      }
      if (chance_->once_in(2)) {
        step({.what = What::go_if, .reg = loop.carried, .operand = number(1 + chance_->below(4))});
        exits.push_back(last());
      }
      if (in_buffer) {
        step({.what = What::set, .reg = loop.carried, .operand = number(0)});
      }
    }
    again(loop);
    leave(exits);
  }

  // An increment by CAS: right, or with a value that was right once.
  void increment(std::uint8_t word) {
    const bool right = !chance_->once_in(3);
    const std::uint8_t old = 1;
    const std::uint8_t wanted = 2;
    read(word, 1, true);
    step({.what = What::set, .reg = old, .operand = in_register(0)});
    step({.what = What::set, .reg = wanted, .operand = in_register(0)});
    step({.what = What::plus, .reg = wanted, .operand = number(1)});
    const Loop loop = begin();
    atomic(What::swap, word, in_register(old), in_register(wanted), true);
    step({.what = What::go_if, .reg = 0, .operand = in_register(old)});
    const std::uint16_t exit = last();
    step({.what = What::set, .reg = old, .operand = in_register(0)});
    if (right) {
      step({.what = What::set, .reg = wanted, .operand = in_register(0)});
      step({.what = What::plus, .reg = wanted, .operand = number(1)});
    }
    again(loop);
    leave({exit});
  }

  void latch(std::uint8_t word) {
    const bool by_adding = chance_->once_in(3);
    const Loop loop = begin();
    if (by_adding) {
      atomic(What::add, word, {}, number(1), true);
    } else {
      atomic(What::swap, word, number(0), number(1), true);
    }
    step({.what = What::go_if, .reg = 0, .operand = number(0)});
    const std::uint16_t exit = last();
    if (by_adding) {
      atomic(What::add, word, {}, number(kMinusOne), shared_ || !chance_->once_in(3));
    }
    again(loop);
    leave({exit});
  }

  void unlatch(std::uint8_t word) {
    const bool waited = shared_ || chance_->once_in(2);
    switch (chance_->below(4)) {
      case 0:
        write(word, 1, number(0), waited);
        break;
      case 1:
        atomic(What::swap, word, number(1), number(0), waited);
        break;
      default:
        atomic(What::add, word, {}, number(kMinusOne), waited);
        break;
    }
  }

  // Latches, or takes the latch of a client that has crashed over.
  void latch_or_take_over(std::uint8_t word, std::uint8_t victim_qp) {
    const bool revokes = !chance_->once_in(4);
    const Loop loop = begin();
    atomic(What::swap, word, number(0), number(1), true);
    step({.what = What::go_if, .reg = 0, .operand = number(0)});
    const std::uint16_t exit = last();
    step({.what = What::if_expired});
    const std::uint16_t expired = last();
    again(loop);
    flow_->code[expired].to = here();
    if (revokes) {
      revoke(victim_qp);
    }
    if (chance_->once_in(2)) {
      read(chance_->below(program_->words), 1, true);
    }
    leave({exit});
  }

  void revoke(std::uint8_t qp) {
    if (!chance_->once_in(4)) {
      step({.what = What::yield});
    }
    step({.what = What::revoke, .qp = qp});
  }

  void drain() {
    if (flow_->sort == Flow::Sort::client && !shared_) {
      for (const std::uint8_t qp : qps_) {
        step({.what = What::wait, .qp = qp});
      }
    }
  }

  void fail_sometimes() {
    if (chance_->once_in(8)) {
      step({.what = What::fail_if, .reg = 0, .operand = number(chance_->below(3))});
    }
  }

  void shares_its_queue_pair() { shared_ = true; }

 private:
  struct Loop {
    std::uint8_t number;
    std::uint8_t carried;  // a register of its own
    std::uint16_t head;
    bool declared;
  };

  Loop begin() {
    const auto number = static_cast<std::uint8_t>(loops_ % kLoops);
    ++loops_;
    const bool declared = !chance_->once_in(8);
    if (declared) {
      step({.what = What::begin_loop, .loop = number});
    }
    return {number, static_cast<std::uint8_t>(1 + number % (kRegisters - 1)), here(), declared};
  }
  void again(const Loop& loop) {
    step({.what = What::retry, .loop = loop.number, .to = loop.head, .declared = loop.declared});
  }
  void leave(const std::vector<std::uint16_t>& exits) {
    for (const std::uint16_t exit : exits) {
      flow_->code[exit].to = here();
    }
  }
  [[nodiscard]] std::uint16_t here() const { return static_cast<std::uint16_t>(flow_->code.size()); }
  [[nodiscard]] std::uint16_t last() const { return static_cast<std::uint16_t>(flow_->code.size() - 1); }
  void step(Instruction instruction) { flow_->code.push_back(instruction); }

  // A loop inside of a loop that ends by itself or with a latch that is given back.
  void nested() {
    if (flow_->sort != Flow::Sort::client || loops_ >= kLoops) {
      return;
    }
    const std::uint8_t word = chance_->below(program_->words);
    latch(word);
    unlatch(word);
  }

  void object_data() {
    if (objects_->once_in(2)) {
      step({.what = What::keep, .operand = number(++*values_ * 16)});
    } else {
      step({.what = What::recall, .reg = 3});
    }
  }

  void local_data() {
    const std::uint8_t word = chance_->below(program_->words);
    const bool cpu = flow_->sort == Flow::Sort::cpu;
    if (chance_->once_in(2)) {
      step({.what = cpu ? What::store : What::poke, .word = word, .operand = number(++*values_ * 16)});
    } else {
      step({.what = cpu ? What::load : What::peek, .word = word, .reg = 3});
    }
    if (cpu && chance_->once_in(3)) {
      step({.what = What::fence});
    }
  }

  // Looks at the buffer of a READ that nobody has waited for, or sends what is in it.
  void use_early() {
    if (chance_->once_in(2)) {
      step({.what = What::look, .slot = read_early_, .reg = 3});
    } else {
      Instruction instruction = post(What::write, chance_->below(program_->words), 1, true);
      instruction.slot = read_early_;
      instruction.inlined = true;
      step({.what = What::yield});  // loads of one step of a client are one
      step(instruction);
    }
  }

  std::uint8_t slots(std::uint8_t count) {
    if (next_slot_ + count > kSlots - 1) {  // the last one is for a loop that counts
      next_slot_ = 0;
    }
    const std::uint8_t slot = next_slot_;
    next_slot_ = static_cast<std::uint8_t>(next_slot_ + count);
    return slot;
  }

  Instruction post(What what, std::uint8_t word, std::uint8_t words, bool waited) {
    flow_->has_unwaited |= !waited;
    Instruction instruction{.what = what, .word = word, .words = words, .slot = slots(words), .waited = waited};
    instruction.qp = qps_[chance_->below(qps_.size())];
    instruction.fenced = chance_->once_in(6);
    return instruction;
  }

  void write(std::uint8_t word, std::uint8_t words, Operand value, bool waited) {
    Instruction instruction = post(What::write, word, words, waited);
    instruction.inlined = chance_->once_in(2);
    for (std::uint8_t i = 0; i < words; ++i) {
      step({.what = What::put, .slot = static_cast<std::uint8_t>(instruction.slot + i), .operand = value});
    }
    step(instruction);
    if (!waited && !instruction.inlined && chance_->once_in(3)) {
      step({.what = What::put, .slot = instruction.slot, .operand = number(++*values_ * 16), .intended = true});
    }
  }

  void read(std::uint8_t word, std::uint8_t words, bool waited) {
    const Instruction instruction = post(What::read, word, words, waited);
    step(instruction);
    if (waited) {
      step({.what = What::look, .slot = instruction.slot, .reg = 0});
      if (words > 1) {
        step({.what = What::look, .slot = static_cast<std::uint8_t>(instruction.slot + words - 1), .reg = 3});
      }
    } else {
      read_early_ = instruction.slot;
    }
  }

  void atomic(What what, std::uint8_t word, Operand expected, Operand operand, bool waited) {
    Instruction instruction = post(what, word, 1, waited);
    instruction.expected = expected;
    instruction.operand = operand;
    step(instruction);
    if (waited) {
      step({.what = What::look, .slot = instruction.slot, .reg = 0});
    }
  }

  Chance* chance_;
  std::optional<Chance> objects_;
  ProgramList* program_;
  Flow* flow_;
  std::vector<std::uint8_t> qps_;
  std::uint64_t* values_;
  std::uint8_t loops_ = 0;
  std::uint8_t next_slot_ = 0;
  std::uint8_t read_early_ = kSlots;  // the buffer of a READ that nobody has waited for, if there is one
  bool shared_ = false;
};

enum class Theme : std::uint8_t { flags, latches, increments, takeover, revocation };

Theme theme_of(std::uint8_t draw) {
  return draw < 8    ? Theme::flags
         : draw < 12 ? Theme::latches
         : draw < 16 ? Theme::increments
         : draw < 18 ? Theme::takeover
                     : Theme::revocation;
}

void write_client(Writer& writer, Chance& chance, const ProgramList& program, Theme theme, std::uint8_t index,
                  bool small) {
  const auto word = [&] { return chance.below(program.words); };
  if (!small && chance.once_in(3)) {
    writer.data(false);
  }
  switch (theme) {
    case Theme::flags:
      if (index == 0) {
        writer.data(false);
        if (!chance.once_in(6)) {
          writer.raise(0);
        }
        if (!small && chance.once_in(5)) {
          writer.wait_for(1);
        }
      } else {
        writer.wait_for(0);
        if (chance.once_in(3)) {
          writer.raise(1);
        }
      }
      break;
    case Theme::latches:
      writer.latch(0);
      if (!small || chance.once_in(2)) {
        writer.data(false);
      }
      if (!chance.once_in(8)) {
        writer.unlatch(0);
      }
      break;
    case Theme::increments:
      writer.increment(word());
      break;
    case Theme::takeover:
      if (index == 0) {
        writer.latch(0);
        writer.data(false);
      } else {
        writer.latch_or_take_over(0, 0);
        writer.data(false);
      }
      writer.unlatch(0);
      break;
    case Theme::revocation:
      if (index == 0) {
        writer.data(false);
        writer.data(false);
      } else if (index == 1) {
        writer.data(false);
        writer.revoke(0);
        writer.data(false);
      } else {
        writer.wait_for(0);
      }
      break;
  }
  if (!small && chance.once_in(3)) {
    writer.data(false);
  }
  writer.fail_sometimes();
  if (chance.once_in(4)) {
    writer.drain();
  }
}

ProgramList make_list(std::uint64_t seed, bool of_lookers) {
  Chance chance(seed * 0x9e37'79b9'7f4a'7c15);
  ProgramList program;
  program.words = static_cast<std::uint8_t>(2 + chance.below(2));
  program.spacing = chance.once_in(4) ? 8 : 64;
  program.nics = chance.once_in(4) ? 2 : 1;
  program.one_place = chance.once_in(6);
  program.looks_behind_posts = of_lookers;
  // Who revokes and looks behind a post may or may not know of the failure; that is not written down here.
  const Theme theme = theme_of(chance.below(of_lookers ? 16 : 20));
  program.clients = static_cast<std::uint8_t>(chance.once_in(4) ? 3 : 2);
  const bool small = program.clients == 3;
  program.may_crash = theme == Theme::takeover || (theme != Theme::revocation && chance.once_in(8));
  program.liveness_after_crash = theme == Theme::takeover && chance.once_in(2);
  std::uint64_t values = 0;
  program.flows.reserve(2U * program.clients + 1U);
  for (std::uint8_t client = 0; client < program.clients; ++client) {
    const bool local = client == 1 && theme == Theme::flags && chance.once_in(4);
    Flow& flow = program.flows.emplace_back();
    flow.client = client;
    if (local) {
      flow.sort = chance.once_in(2) ? Flow::Sort::cpu : Flow::Sort::memory_node;
      Writer(chance, program, flow, {}, values).wait_for(0);
      continue;
    }
    std::vector<std::uint8_t> qps;
    const std::uint8_t count = chance.once_in(4) && !(client == 0 && theme == Theme::takeover) ? 2 : 1;
    for (std::uint8_t i = 0; i < count; ++i) {
      qps.push_back(static_cast<std::uint8_t>(program.qps.size()));
      program.qps.push_back({client, chance.below(program.nics)});
    }
    Writer writer(chance, program, flow, qps, values);
    if (of_lookers) {
      writer.share_an_object(seed * 64 + client);
    }
    // A task waits for its own requests only if each waits for each.
    const bool two = !small && theme != Theme::takeover && theme != Theme::revocation && chance.once_in(8);
    const bool shared = two && chance.once_in(2);
    if (shared) {
      writer.shares_its_queue_pair();
    }
    write_client(writer, chance, program, theme, client, small || two);
    if (two) {
      Flow& second = program.flows.emplace_back();
      second.client = client;
      std::vector<std::uint8_t> own = {qps.front()};
      if (!shared) {
        own = {static_cast<std::uint8_t>(program.qps.size())};
        program.qps.push_back({client, chance.below(program.nics)});
      }
      Writer other(chance, program, second, own, values);
      if (of_lookers) {
        other.share_an_object(seed * 64 + 32 + client);
      }
      if (shared) {
        other.shares_its_queue_pair();
      }
      other.data(false);
    }
  }
  return program;
}

}  // namespace

ProgramList random_list(std::uint64_t seed) { return make_list(seed, false); }

ProgramList random_list_of_lookers(std::uint64_t seed) { return make_list(seed, true); }

namespace {

std::string text_of(const Operand& operand) {
  return operand.is_register ? fmt::format("r{}", operand.value)
                             : fmt::format("{}", static_cast<std::int64_t>(operand.value));
}

std::string text_of(const Instruction& at) {
  const std::string marks = fmt::format("{}{}{} @qp{}", at.fenced ? ".fence" : "", at.inlined ? ".inline" : "",
                                        at.waited ? "" : ".unwaited", at.qp);
  switch (at.what) {
    case What::write:
      return fmt::format("WRITE w{}+{} from s{}{}", at.word, at.words, at.slot, marks);
    case What::read:
      return fmt::format("READ w{}+{} to s{}{}", at.word, at.words, at.slot, marks);
    case What::swap:
      return fmt::format("CAS w{} {} -> {} to s{}{}", at.word, text_of(at.expected), text_of(at.operand), at.slot,
                         marks);
    case What::add:
      return fmt::format("ADD w{} {} to s{}{}", at.word, text_of(at.operand), at.slot, marks);
    case What::wait:
      return fmt::format("wait @qp{}", at.qp);
    case What::look:
      return fmt::format("r{} := s{}", at.reg, at.slot);
    case What::put:
      return fmt::format("s{} {}:= {}", at.slot, at.intended ? "(intended) " : "", text_of(at.operand));
    case What::yield:
      return "yield";
    case What::revoke:
      return fmt::format("revoke qp{}", at.qp);
    case What::retry:
      return fmt::format("retry {}loop {}, to {}", at.declared ? "" : "undeclared ", at.loop, at.to);
    case What::store:
      return fmt::format("store w{} {}", at.word, text_of(at.operand));
    case What::load:
      return fmt::format("r{} := load w{}", at.reg, at.word);
    case What::fence:
      return "mfence";
    case What::poke:
      return fmt::format("poke w{} {}", at.word, text_of(at.operand));
    case What::peek:
      return fmt::format("r{} := peek w{}", at.reg, at.word);
    case What::set:
      return fmt::format("r{} := {}", at.reg, text_of(at.operand));
    case What::plus:
      return fmt::format("r{} += {}", at.reg, text_of(at.operand));
    case What::keep:
      return fmt::format("object := {}", text_of(at.operand));
    case What::recall:
      return fmt::format("r{} := object", at.reg);
    case What::go:
      return fmt::format("go to {}", at.to);
    case What::go_if:
      return fmt::format("if r{} == {} go to {}", at.reg, text_of(at.operand), at.to);
    case What::go_unless:
      return fmt::format("if r{} != {} go to {}", at.reg, text_of(at.operand), at.to);
    case What::begin_loop:
      return fmt::format("begin loop {}", at.loop);
    case What::fail_if:
      return fmt::format("fail if r{} == {}", at.reg, text_of(at.operand));
    case What::if_expired:
      return fmt::format("if expired go to {}", at.to);
  }
  return "?";
}

}  // namespace

std::string ProgramList::to_string() const {
  std::string text = fmt::format(
      "{} words, {} bytes apart, {} NICs{}{}{}\n", words, spacing, nics, may_crash ? ", client 0 may crash" : "",
      liveness_after_crash ? ", liveness after the crash" : "", one_place ? ", all loops at one place" : "");
  text += looks_behind_posts ? "looks behind posts need no step\n" : "";
  for (std::size_t i = 0; i < qps.size(); ++i) {
    text += fmt::format("  qp{}: client {}, NIC {}\n", i, qps[i].client, qps[i].nic);
  }
  for (const Flow& flow : flows) {
    text += flow.sort == Flow::Sort::client ? fmt::format("  client {}:\n", flow.client)
            : flow.sort == Flow::Sort::cpu  ? "  CPU thread:\n"
                                            : "  task of the memory node:\n";
    for (std::size_t i = 0; i < flow.code.size(); ++i) {
      text += fmt::format("    {:2} {}\n", i, text_of(flow.code[i]));
    }
  }
  return text;
}

}  // namespace sidelatch::explore::oracle
