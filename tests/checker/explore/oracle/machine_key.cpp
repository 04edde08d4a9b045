// The bytes that tell two states apart.
#include "machine.h"

#include <cstring>

namespace sidelatch::explore::oracle {

namespace {

template <class Number>
void append(std::string& to, Number number) {
  std::array<char, sizeof number> bytes;
  std::memcpy(bytes.data(), &number, sizeof number);
  to.append(bytes.data(), bytes.size());
}

}  // namespace

std::string Machine::key(const State& state) {
  std::string key;
  key.reserve(512);
  for (const std::uint64_t word : state.memory) {
    append(key, word);
  }
  append(key, state.object);
  for (const FlowState& flow : state.flows) {
    append(key, static_cast<std::uint8_t>(static_cast<unsigned>(flow.status) * 8 + (flow.waits ? 1U : 0U) +
                                          (flow.is_running ? 2U : 0U) + (flow.has_begun ? 4U : 0U)));
    append(key, flow.at);
    append(key, flow.knows_failed);
    for (const std::uint64_t number : flow.registers) {
      append(key, number);
    }
    for (const std::uint64_t number : flow.slots) {
      append(key, number);
    }
    append(key, static_cast<std::uint8_t>(flow.buffer.size()));
    for (const FlowState::Store& store : flow.buffer) {
      append(key, store.word);
      append(key, store.value);
    }
  }
  append(key, static_cast<std::uint8_t>(state.requests.size()));
  for (const Request& request : state.requests) {
    append(key, static_cast<std::uint8_t>(request.what));
    append(key, static_cast<std::uint8_t>((request.fenced ? 1U : 0U) | (request.inlined ? 2U : 0U) |
                                          (request.loaded ? 4U : 0U) | (request.stored ? 8U : 0U) |
                                          (request.delivered ? 16U : 0U) | (request.completed ? 32U : 0U) |
                                          (request.failed ? 64U : 0U)));
    for (const std::uint8_t number : {request.word, request.words, request.slot, request.flow, request.qp}) {
      append(key, number);
    }
    append(key, request.fetched);
    append(key, request.touched);
    append(key, request.waits);
    append(key, request.expected);
    append(key, request.operand);
    for (const std::uint64_t word : request.payload) {
      append(key, word);
    }
  }
  append(key, state.revoked);
  append(key, state.failed);
  append(key, state.expired);
  append(key, static_cast<std::uint8_t>(state.crashed ? 1 : 0));
  return key;
}

}  // namespace sidelatch::explore::oracle
