// Parses a litmus file from its first line to its last.
//
// The format. NAME is a word of letters, digits and _ that is no keyword; NUMBER a signed decimal 64-bit integer. Lines
// end statements, and so does ';' inside threads and nodes; '#' begins a comment.
//
//   litmus NAME                                  first; this name may have any visible characters but '#'
//   var NAME = NUMBER                            a word in a line of its own
//   line NAME { NAME = NUMBER, ... }             words that share a line
//   object NAME[COUNT] = NUMBER                  word 0 of consecutive lines
//   node M1 { var, line, object ... }            memory of another node
//   param NAME VALUE                             see set_parameter() in rules.h
//   qp P0.qp1 nic1                               the client's queue pair to M0 goes through M0's second NIC
//   crash P0                                     the client may stop at any point
//   P0:  STATEMENTS                              a client
//   C0:  STATEMENTS                              a CPU thread of M0
//   exists CONDITION                             == != && || ! ( ), over P0:r0, P0:r0[1], memory by name, numbers
//   expect strict|observed|spec|relaxed|all allowed|forbidden
//
// Statements of a client. [x] may be left out; TARGET is a var, a line, a word of a line, an object, or OBJECT[i]:
//   write[.fence] [@qpN] TARGET NUMBER           write.buf[.fence] [@qpN] TARGET BUFFER
//   [REGISTER =] read[.fence] [@qpN] TARGET
//   [REGISTER =] cas[.fence] [@qpN] TARGET NUMBER NUMBER
//   [REGISTER =] faa[.fence] [@qpN] TARGET NUMBER
//   wait [qpN]             buf BUFFER = NUMBER             BUFFER := NUMBER
//   if CONDITION { STATEMENTS } [else { STATEMENTS }]      over registers of the thread that have been waited for
// Statements of a CPU thread:
//   store TARGET NUMBER    [REGISTER =] load TARGET        mfence        if
//
// Sections may come in any order after the first line. The file is therefore read three times: for the names of memory,
// for the threads, and for the sections that refer to threads.
#include "condition.h"
#include "lexer.h"
#include "litmus.h"
#include "names.h"
#include "thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace sidelatch::explore {
namespace litmus {
namespace {

using fabric::model::Preset;
using fabric::model::Rules;

constexpr std::size_t kMaxThreadsAndNodes = 62;  // the explorer takes no more: each client is a node, too
constexpr std::array kModels = {Preset::strict, Preset::observed, Preset::spec, Preset::relaxed};

// Whether set_parameter() knows the name. Its error distinguishes a wrong name from a wrong value only in its text, so
// a value of each sort is tried.
bool is_parameter(std::string_view name) {
  constexpr std::array<std::string_view, 4> kValues = {"true", "any", "global", "64"};
  return std::any_of(kValues.begin(), kValues.end(), [&](std::string_view value) {
    try {
      Rules rules;
      fabric::model::set_parameter(rules, name, value);
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
  });
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : cursor_(text, file) {}

  LitmusTest run() {
    header();
    const std::size_t start = cursor_.position();
    memory();
    cursor_.go_to(start);
    threads();
    for (const std::size_t section : later_) {
      cursor_.go_to(section);
      later_section();
    }
    if (first_expect_ != nullptr && !test_.exists) {
      cursor_.fail(*first_expect_, "'expect' without 'exists': there is no condition to expect");
    }
    return std::move(test_);
  }

 private:
  void header() {
    cursor_.skip_ends();
    if (!cursor_.accept("litmus")) {
      cursor_.fail_expected("'litmus NAME' before everything else");
    }
    test_.name = cursor_.word("the name of the test").text;
    cursor_.end_of_line();
    test_.nodes.push_back({"M0", {}});
  }

  // First reading. No statement begins with a keyword of a declaration, so checking the first word of each line is
  // enough.
  void memory() {
    for (cursor_.skip_ends(); !cursor_.at(TokenKind::end_of_file); cursor_.skip_ends()) {
      if (Memory::declares(cursor_)) {
        const std::size_t begin = cursor_.position();
        memory_.declaration(cursor_, test_);
        declarations_.emplace(begin, cursor_.position());
      } else {
        cursor_.skip_line();
      }
    }
  }

  // Second reading.
  void threads() {
    for (cursor_.skip_ends(); !cursor_.at(TokenKind::end_of_file); cursor_.skip_ends()) {
      const auto declaration = declarations_.find(cursor_.position());
      if (declaration != declarations_.end()) {
        cursor_.go_to(declaration->second);
      } else if (cursor_.at("param") || cursor_.at("qp") || cursor_.at("crash") || cursor_.at("exists") ||
                 cursor_.at("expect")) {
        later_.push_back(cursor_.position());
        cursor_.skip_line();
      } else if (at_label(cursor_)) {
        thread();
      } else if (cursor_.at("litmus")) {
        cursor_.fail(cursor_.peek(),
                     fmt::format("a second 'litmus': a file holds one test, and this is '{}'", test_.name));
      } else {
        cursor_.fail_expected("var, line, object, node, param, qp, crash, exists, expect or a thread such as 'P0:'");
      }
    }
    if (test_.threads.empty()) {
      cursor_.fail_expected("a thread such as 'P0:' (a test without threads does nothing)");
    }
  }

  void thread() {
    const Token& name = cursor_.take();
    cursor_.expect(":");
    const bool is_client = is_numbered("P", name.text);
    if (!is_client && !is_numbered("C", name.text)) {
      cursor_.fail(name,
                   fmt::format("expected a client P0, P1, ... or a CPU thread C0, C1, ..., found {}", describe(name)));
    }
    if (find_thread(name.text)) {
      cursor_.fail(name, fmt::format("duplicate name: there is a thread {} already", describe(name)));
    }
    if (test_.nodes.size() + test_.threads.size() >= kMaxThreadsAndNodes) {
      cursor_.fail(name, fmt::format("more than {} threads and nodes with M0", kMaxThreadsAndNodes));
    }
    const auto number = static_cast<std::uint32_t>(test_.threads.size());
    Thread& thread = test_.threads.emplace_back();
    thread.name = name.text;
    thread.is_client = is_client;
    ThreadParser(cursor_, memory_, number, thread).body();
  }

  // Third reading.
  void later_section() {
    const Token& keyword = cursor_.take();
    if (keyword.text == "param") {
      param();
    } else if (keyword.text == "qp") {
      queue_pair();
    } else if (keyword.text == "crash") {
      crash();
    } else if (keyword.text == "exists") {
      exists(keyword);
    } else {
      expect(keyword);
    }
    cursor_.end_of_line();
  }

  void param() {
    const Token& name = cursor_.word("the name of a parameter of the memory model");
    const Token& value = cursor_.at(TokenKind::number) ? cursor_.take() : cursor_.word("a value");
    Param param{std::string(name.text), std::string(value.text)};
    const auto same = [&](const Param& other) { return other.name == param.name; };
    if (std::any_of(test_.params.begin(), test_.params.end(), same)) {
      cursor_.fail(name, fmt::format("duplicate name: parameter {} is set already", describe(name)));
    }
    try {
      Rules rules;
      fabric::model::set_parameter(rules, param.name, param.value);
    } catch (const std::invalid_argument& error) {
      cursor_.fail(is_parameter(param.name) ? value : name, error.what());
    }
    test_.params.push_back(std::move(param));
  }

  void queue_pair() {
    Thread& thread = client();
    cursor_.expect(".");
    const Token& name = take_queue_pair_name(cursor_);
    const Token& nic = cursor_.word("nic0 or nic1");
    if (nic.text != "nic0" && nic.text != "nic1") {
      cursor_.fail(nic, fmt::format("expected nic0 or nic1, found {}", describe(nic)));
    }
    if (!placed_.insert(fmt::format("{}.{}", thread.name, name.text)).second) {
      cursor_.fail(name, fmt::format("duplicate name: the NIC of {}.{} is given already", thread.name, name.text));
    }
    const auto is_meant = [&](const QueuePair& pair) { return pair.name == name.text && pair.node == 0; };
    const auto pair = std::ranges::find_if(thread.queue_pairs, is_meant);
    if (pair == thread.queue_pairs.end()) {
      cursor_.fail(name, fmt::format("{} posts nothing to M0 on queue pair {}", thread.name, describe(name)));
    }
    pair->nic = nic.text == "nic1" ? 1 : 0;
  }

  void crash() {
    const Token& name = cursor_.peek();
    Thread& thread = client();
    if (thread.may_crash) {
      cursor_.fail(name, fmt::format("duplicate name: {} may crash already", describe(name)));
    }
    thread.may_crash = true;
  }

  void exists(const Token& keyword) {
    if (test_.exists) {
      cursor_.fail(keyword, "a second 'exists': a test has one condition; join the two by && or ||");
    }
    test_.exists = take_condition(cursor_, [this] { return variable(); });
  }

  void expect(const Token& keyword) {
    first_expect_ = first_expect_ == nullptr ? &keyword : first_expect_;
    const Token& model = cursor_.word("a model: strict, observed, spec, relaxed or all");
    const bool all = model.text == "all";
    const auto named = std::find_if(kModels.begin(), kModels.end(),
                                    [&](Preset preset) { return fabric::model::name(preset) == model.text; });
    if (!all && named == kModels.end()) {
      cursor_.fail(model,
                   fmt::format("unknown model {}: expected strict, observed, spec, relaxed or all", describe(model)));
    }
    const Token& verdict = cursor_.word("allowed or forbidden");
    if (verdict.text != "allowed" && verdict.text != "forbidden") {
      cursor_.fail(verdict, fmt::format("expected allowed or forbidden, found {}", describe(verdict)));
    }
    for (const Preset preset : kModels) {
      if (all || preset == *named) {
        expect_of(preset, verdict);
      }
    }
  }

  void expect_of(Preset model, const Token& verdict) {
    const bool allowed = verdict.text == "allowed";
    const std::optional<bool> before = test_.expected(model);
    if (before && *before != allowed) {
      cursor_.fail(verdict,
                   fmt::format("expected {} again, for an earlier line says so of {}, found {}",
                               *before ? "allowed" : "forbidden", fabric::model::name(model), describe(verdict)));
    }
    if (!before) {
      test_.expectations.push_back({model, allowed});
    }
  }

  // ---- Sections that refer to threads.

  [[nodiscard]] std::optional<std::uint32_t> find_thread(std::string_view name) const {
    for (std::uint32_t i = 0; i < test_.threads.size(); ++i) {
      if (test_.threads[i].name == name) {
        return i;
      }
    }
    return std::nullopt;
  }

  Thread& client() {
    const Token& name = cursor_.word("a client such as P0");
    const auto number = find_thread(name.text);
    if (!number) {
      cursor_.fail(name, fmt::format("unknown name {}: there is no such client", describe(name)));
    }
    Thread& thread = test_.threads[*number];
    if (!thread.is_client) {
      cursor_.fail(name, fmt::format("expected a client, found {}, which is a CPU thread", describe(name)));
    }
    return thread;
  }

  // P0:r0, P0:r[1] or the name of one word of memory.
  Operand variable() {
    if (!at_label(cursor_)) {
      if (cursor_.at(TokenKind::word) && !memory_.knows(cursor_.peek().text)) {
        cursor_.fail(cursor_.peek(), fmt::format("unknown name {}: expected THREAD:REGISTER, as in P0:r0, or the name "
                                                 "of a word of memory",
                                                 describe(cursor_.peek())));
      }
      if (!cursor_.at(TokenKind::word)) {
        cursor_.fail_expected("THREAD:REGISTER, a word of memory or a number");
      }
      return memory_.one_word(cursor_, "a condition compares").at(0);
    }
    const Token& name = cursor_.take();
    cursor_.expect(":");
    const auto number = find_thread(name.text);
    if (!number) {
      cursor_.fail(name, fmt::format("unknown name {}: there is no such thread", describe(name)));
    }
    const Thread& thread = test_.threads[*number];
    const Token& reg = cursor_.word("the name of a register");
    for (std::uint32_t i = 0; i < thread.registers.size(); ++i) {
      if (thread.registers[i].name == reg.text) {
        return RegisterWord{*number, i, take_register_index(cursor_, reg, thread.registers[i].words)};
      }
    }
    cursor_.fail(reg, fmt::format("unknown name {}: {} has no such register", describe(reg), thread.name));
  }

  Cursor cursor_;
  LitmusTest test_;
  Memory memory_;
  std::map<std::size_t, std::size_t> declarations_;  // their begins and ends
  std::vector<std::size_t> later_;                   // where each section of the third reading begins
  std::set<std::string> placed_;                     // queue pairs with a given NIC
  const Token* first_expect_ = nullptr;
};

}  // namespace
}  // namespace litmus

LitmusTest parse_litmus(std::string_view text, std::string_view file_name) {
  return litmus::Parser(text, file_name).run();
}

}  // namespace sidelatch::explore
